// What the headers and structure of a file say about its first picture before decoding: facts that FFmpeg's decoders do
// not report, or report without checking.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "image/bytes.h"

namespace spdl {

struct DeclaredSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

// `format` as sniff_format names it. Empty for formats that are not known here.
std::optional<DeclaredSize> declared_size(std::string_view format, Bytes data) noexcept;

// Why FFmpeg's decoder would give other colours than are stored, without an error; empty if it reads the data
// correctly. For JPEG, applies to those that must go through FFmpeg.
std::string_view misread_because(std::string_view format, Bytes data) noexcept;

// Whether the fourth byte of a 32-bit pixel is padding that FFmpeg's decoder takes for alpha: in BMP without an alpha
// mask.
bool has_padding_for_alpha(std::string_view format, Bytes data) noexcept;

// Whether the data ends before the picture does, for formats whose decoders would fill in the rest.
bool ends_early(std::string_view format, Bytes data) noexcept;

}  // namespace spdl
