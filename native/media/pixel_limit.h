// The pixel limit to set in libavcodec, so that it refuses the same pictures as we do.

#pragma once

#include <cstdint>

namespace spdl {

// libavcodec counts whole rows of its buffers, whose widths are multiples of 64. So the limit allows the padding of
// 65536 rows on top; decoded frames are then counted exactly. Narrow pictures with more rows take as much memory as
// wide ones, and are refused.
constexpr std::int64_t codec_max_pixels(std::int64_t max_pixels) noexcept { return max_pixels + 64 * 65536; }

}  // namespace spdl
