// LZW as in GIF (GIF89a, appendix F): codes begin at the low bit of a byte.
//
// A plain function, thread-safe.

#pragma once

#include <cstdint>
#include <span>

#include "image/bytes.h"

namespace spdl {

// Bits per symbol in most GIF files.
inline constexpr int kLzwBits = 8;

// Whether the codes gave enough bytes to fill `out`; the rest is ignored. If false, the contents of `out` are
// unspecified. `bits`: per symbol, from 2 to 8. Another thread may change the codes during the call: each is read once.
bool unpack_lzw(Bytes codes, int bits, std::span<std::uint8_t> out) noexcept;

}  // namespace spdl
