// Packets as bytes, to be kept or sent to another process, and back.
//
// Little endian:
//
//   8 bytes   "SPDLPKT", and the version of what follows: 1
//   u64       size of the description
//   u64       FNV-1a hash of the description
//   …         the description: all but the encoded data; names of codecs and formats instead of libav's numbers
//   …         the encoded data of each packet, each followed by as many zero bytes as decoders may read beyond it
//
// Data that is not exactly this is refused; what is in the encoded data is for the decoder to judge.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "media/packets.h"

namespace spdl {

std::size_t serialized_size(const Packets& packets);
// Writes `serialized_size` bytes.
void serialize(const Packets& packets, std::uint8_t* out);

// Packets whose encoded data stays where it is, in `data`, which `owner` keeps alive and unchanged.
// Throws Error(kMedia).
Packets deserialize(std::span<const std::uint8_t> data, const std::shared_ptr<const void>& owner);

}  // namespace spdl
