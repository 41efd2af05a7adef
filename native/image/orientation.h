// How an encoded picture is to be turned to be upright, wherever its format stores that.

#pragma once

#include <cstdint>
#include <span>

namespace spdl {

// The orientation as EXIF numbers it (1 to 8): of JPEG (APP1), PNG (eXIf), WebP (EXIF), TIFF (tag 274), AVIF and HEIF
// (irot and imir of the primary item). 1 for other formats, and where nothing is stored or what is stored is damaged.
int stored_orientation(std::span<const std::uint8_t> data) noexcept;

}  // namespace spdl
