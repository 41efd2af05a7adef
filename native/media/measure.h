// What a container did not tell about a stream, found by decoding its first frame.

#pragma once

#include "media/packets.h"

namespace spdl {

// The packets' codec with the size and pixel format, or the sample rate, channels and sample format, of what they decode
// to; as it is if it is complete, or if they cannot be decoded.
CodecPtr measure(const Packets& packets);

}  // namespace spdl
