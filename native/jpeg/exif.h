// The one field of EXIF that changes how a picture is shown.

#pragma once

#include <cstdint>
#include <span>

namespace spdl {

// The orientation (1 to 8) stored in the contents of an APP1 marker, or 1 if there is none or the data is damaged.
int exif_orientation(std::span<const std::uint8_t> app1) noexcept;

}  // namespace spdl
