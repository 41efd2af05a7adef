// Facts of a GIF that FFmpeg's decoder does not report.

#pragma once

#include <cstdint>
#include <optional>

#include "image/bytes.h"

namespace spdl {

struct GifFacts {
  bool ends_early = false;                       // the first picture is not all there
  std::optional<std::uint32_t> hidden_colour;    // 0xRRGGBB that the palette holds for what is transparent in it
};

GifFacts inspect_gif(Bytes gif) noexcept;

}  // namespace spdl
