// LZW as in TIFF and GIF (TIFF 6.0, section 13; GIF89a, appendix F).
//
// A plain function, thread-safe.

#pragma once

#include <cstdint>
#include <span>

#include "image/bytes.h"

namespace spdl {

enum class LzwKind : std::uint8_t {
  kTiff,  // codes begin at the high bit of a byte, and grow one code early
  kGif,   // at the low bit
};

// Bits per symbol in TIFF and in most GIF files.
inline constexpr int kLzwBits = 8;

// Whether the codes gave enough bytes to fill `out`; the rest is ignored. If false, the contents of `out` are
// unspecified. `bits`: per symbol, from 2 to 8. Another thread may change the codes during the call: each is read once.
bool unpack_lzw(Bytes codes, LzwKind kind, int bits, std::span<std::uint8_t> out) noexcept;

}  // namespace spdl
