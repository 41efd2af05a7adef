// Converts the YCbCr of video to RGB: BT.601 and BT.709, limited and full range. Functions; the same bytes on all
// machines.

#pragma once

#include <cstdint>

#include "image/picture.h"

namespace spdl {

// One row. Integers with 14 bits behind the point, rounded; limited range: ITU-R BT.709, section 3 and 4.
void video_to_rgb(YcbcrMatrix matrix, bool is_limited_range, const std::uint8_t* y, const std::uint8_t* cb,
                  const std::uint8_t* cr, std::uint8_t* r, std::uint8_t* g, std::uint8_t* b, int width) noexcept;

}  // namespace spdl
