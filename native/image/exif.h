// The only EXIF field that changes how a picture is shown.

#pragma once

#include <cstdint>
#include <span>

namespace spdl {

inline constexpr int kUprightOrientation = 1;

// The orientation (1 to 8) stored in a TIFF structure, or 1 if there is none or the data is damaged.
int tiff_orientation(std::span<const std::uint8_t> tiff) noexcept;

// The same for EXIF data, a TIFF structure after a signature.
int exif_orientation(std::span<const std::uint8_t> exif) noexcept;

}  // namespace spdl
