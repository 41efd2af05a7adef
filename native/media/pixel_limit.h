// How many pixels libavcodec is to accept, so that it refuses what we do, and no more.

#pragma once

#include <cstdint>

namespace spdl {

// libavcodec counts whole rows of its buffers, whose widths are multiples of 64. What that adds to a picture of 65536 rows
// is allowed on top; frames are counted exactly when they come out. Narrow pictures with more rows take the memory of wide
// ones, and are refused as such.
constexpr std::int64_t codec_max_pixels(std::int64_t max_pixels) noexcept { return max_pixels + 64 * 65536; }

}  // namespace spdl
