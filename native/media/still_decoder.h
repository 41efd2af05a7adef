// The first picture of encoded data, whatever its format.

#pragma once

#include <cstdint>
#include <span>

#include "av/owners.h"
#include "image/batch.h"

namespace spdl {

// Decodes `data`. If its own bytes do not tell its format, `source` may, where it is a path.
// The frame's colour range says what is known of it, also where FFmpeg's decoder is silent.
// Throws Error: kOpen for what is no picture, kDecode for what is damaged or has more than kMaxPixels.
av::FramePtr decode_still(const ImageSource& source, std::span<const std::uint8_t> data);

}  // namespace spdl
