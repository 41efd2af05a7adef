// LZW as TIFF and GIF have it (TIFF 6.0, section 13; GIF89a, appendix F).
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

// Bits of what TIFF and most GIF are made of.
inline constexpr int kLzwBits = 8;

// Whether the codes gave at least as many bytes as `out` has, which are then in it; what follows is ignored. `bits`: of a
// symbol, from 2 to 8. If not, `out` has unspecified contents. The codes may change meanwhile: each is read once.
bool unpack_lzw(Bytes codes, LzwKind kind, int bits, std::span<std::uint8_t> out) noexcept;

}  // namespace spdl
