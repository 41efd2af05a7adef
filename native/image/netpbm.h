// The header of Netpbm's formats: PBM, PGM, PPM, PAM, and PFM with its half-precision kind PHM.
//
// Plain functions, thread-safe; they read each byte of the header once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "image/bytes.h"

namespace spdl {

struct NetpbmHeader {
  char kind = '6';  // the byte behind the P
  std::int64_t width = 0;
  std::int64_t height = 0;
  int depth = 1;           // samples of a pixel
  std::uint32_t most = 1;  // the sample that is white
  double scale = 1;        // of PFM: negative for little-endian samples, which are divided by its size
  std::string_view tuple;  // what PAM says that a pixel is; may be empty
  std::size_t size = 0;    // bytes of the header

  bool is_plain() const noexcept { return kind >= '1' && kind <= '3'; }  // numbers in ASCII
  bool is_bits() const noexcept { return kind == '1' || kind == '4'; }
  bool is_float() const noexcept { return kind == 'f' || kind == 'F' || kind == 'h' || kind == 'H'; }
};

// None for data that is of another kind, or whose header is damaged or cut.
std::optional<NetpbmHeader> netpbm_header(Bytes data) noexcept;

// The next whole number in ASCII behind blanks and comments; none at the end or where something else stands. Advances `at`.
// `most_digits`: 1 for samples of bits, which need no blanks between them.
std::optional<std::uint32_t> next_number(Bytes data, std::size_t& at, int most_digits = 9) noexcept;

}  // namespace spdl
