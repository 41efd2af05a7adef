// Finds what a container does not say about a stream by decoding its first frame.

#pragma once

#include "media/packets.h"

namespace spdl {

// The packets' codec, completed with the size and pixel format, or the sample rate, channels and sample format, of the
// decoded frames. Unchanged if it is complete, or if the packets cannot be decoded.
CodecPtr measure(const Packets& packets);

}  // namespace spdl
