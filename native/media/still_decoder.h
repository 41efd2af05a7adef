// The first picture of encoded data, whatever its format.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "av/owners.h"
#include "image/batch.h"

namespace spdl {

// Decodes `data`. If its own bytes do not tell its format, `source` may, where it is a path.
// The frame's colour range says what is known of it, also where FFmpeg's decoder is silent.
// Throws Error: kOpen for what is no picture, kDecode for what is damaged or has more than kMaxPixels.
av::FramePtr decode_still(const ImageSource& source, std::span<const std::uint8_t> data);

// The first picture of a file that is not read as a whole, such as a film.
av::FramePtr decode_still(const std::string& path);

// Whether data of that format, as sniff_format names it, is a picture to be read as a whole.
bool is_still(std::string_view format) noexcept;

}  // namespace spdl
