// Serializes packets, to store them or send them to another process, and back.
//
// The in-band bytes, little endian:
//
//   8 bytes   "SPDLPKT", and the version of what follows: 1, or 2 if there are out-of-band buffers
//   u64       size of the description
//   u64       FNV-1a hash of the description
//   …         the description: all but the encoded data; names of codecs and formats instead of libav's numbers
//   …         version 2: a byte for each packet, 1 if its data is out of band
//   …         the data of each other packet, followed by as many zero bytes as decoders may read beyond it
//
// Each out-of-band buffer is the data of one packet with the same padding, in the order of the packets.
//
// Anything else is refused. Only the decoder checks the encoded data itself.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/packets.h"
#include "media/shared_bytes.h"

namespace spdl {

// For bytes that are all in band.
std::size_t serialized_size(const Packets& packets);
// Writes `serialized_size` bytes.
void serialize(const Packets& packets, std::uint8_t* out);

// With the data of large packets out of band, not copied.
Serialized serialize(const Packets& packets);

// Packets that refer to the given bytes and keep them.
// Throws Error(kMedia).
Packets deserialize_packets(const SharedBytes& in_band, std::span<const SharedBytes> out_of_band);

}  // namespace spdl
