// Packets as bytes, to be kept or sent to another process, and back.
//
// Little endian:
//
//   8 bytes   "SPDLPKT", and the version of what follows: 1, or 2 if data is beside
//   u64       size of the description
//   u64       FNV-1a hash of the description
//   …         the description: all but the encoded data; names of codecs and formats instead of libav's numbers
//   …         version 2: a byte for each packet, 1 if its data is beside
//   …         the encoded data of each packet that is not, each followed by as many zero bytes as decoders may read
//             beyond it
//
// Data that is beside is one part for each packet, with the same padding, in the order of the packets.
//
// Data that is not exactly this is refused; what is in the encoded data is for the decoder to judge.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/packets.h"
#include "media/part.h"

namespace spdl {

// With nothing beside.
std::size_t serialized_size(const Packets& packets);
// Writes `serialized_size` bytes.
void serialize(const Packets& packets, std::uint8_t* out);

// With the data of large packets beside, where it lies.
Parts take_apart(const Packets& packets);

// Packets whose encoded data stays where it is, in the parts.
// Throws Error(kMedia).
Packets deserialize(const Part& joined, std::span<const Part> beside);

}  // namespace spdl
