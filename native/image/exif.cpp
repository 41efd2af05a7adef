#include "image/exif.h"

#include "image/tiff.h"

namespace spdl {

int tiff_orientation(std::span<const std::uint8_t> tiff) noexcept {
  constexpr std::uint32_t kOrientationTag = 274;
  const auto value = static_cast<int>(TiffDirectory(tiff).short_field(kOrientationTag).value_or(0));
  return value >= 1 && value <= 8 ? value : kUprightOrientation;
}

int exif_orientation(std::span<const std::uint8_t> exif) noexcept {
  constexpr std::string_view kMark("Exif\0\0", 6);
  return has_name(exif, 0, kMark) ? tiff_orientation(exif.subspan(kMark.size())) : kUprightOrientation;
}

}  // namespace spdl
