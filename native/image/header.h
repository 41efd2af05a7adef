// What headers and structure of a file say about its first picture, before it is decoded: where FFmpeg's decoders do not
// tell, or tell it as they tell any nonsense.

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

// Why FFmpeg's decoder gives other colours than are stored, and no error; empty for what it reads. That of JPEG is for
// those that must go through FFmpeg.
std::string_view misread_because(std::string_view format, Bytes data) noexcept;

// Whether the fourth byte of a pixel of 32 bits means nothing, although FFmpeg's decoder takes it for alpha: in BMP without
// a mask for it.
bool has_padding_for_alpha(std::string_view format, Bytes data) noexcept;

// Whether the data ends before the picture does, for formats whose decoders would make up the rest.
bool ends_early(std::string_view format, Bytes data) noexcept;

}  // namespace spdl
