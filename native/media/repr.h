// The text of packets and codecs for Python's repr().

#pragma once

#include <string>

#include "media/packets.h"

namespace spdl {

// `VideoPackets<src="v.mp4:0", num_packets=50, pts=[0.000, 1.960], timestamp=(0.5, 1), Codec=<…>>`
std::string repr(const Packets& packets);
// `<bit_rate=…, bits_per_sample=…, codec="h264", …>`
std::string repr(const Codec& codec);

}  // namespace spdl
