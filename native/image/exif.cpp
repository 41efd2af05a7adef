#include "image/exif.h"

#include <algorithm>
#include <string_view>

#include "image/tiff.h"

namespace spdl {
namespace {

constexpr std::string_view kExifMark("Exif\0\0", 6);
// XMP, part 3 (storage in files), 1.1.3.
constexpr std::string_view kXmpMark("http://ns.adobe.com/xap/1.0/\0", 29);

}  // namespace

std::optional<int> tiff_orientation(std::span<const std::uint8_t> tiff) noexcept {
  constexpr std::uint32_t kOrientationTag = 274;
  const auto value = TiffDirectory(tiff).number_field(kOrientationTag);
  return value ? std::optional(static_cast<int>(std::min(*value, 0xffffU))) : std::nullopt;
}

std::optional<int> exif_orientation(std::span<const std::uint8_t> exif) noexcept {
  while (has_name(exif, 0, kExifMark)) {
    exif = exif.subspan(kExifMark.size());
  }
  return tiff_orientation(exif);
}

// As Pillow's Image.getexif does: tiff:Orientation="6", <tiff:Orientation>6</tiff:Orientation>.
std::optional<int> xmp_orientation(std::span<const std::uint8_t> xmp) noexcept {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (std::size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    rest = rest.substr(rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : rest.size());
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      return rest[0] - '0';
    }
  }
  return std::nullopt;
}

int shown_orientation(std::optional<int> stored) noexcept {
  return stored && *stored >= 1 && *stored <= 8 ? *stored : kUprightOrientation;
}

void JpegOrientation::add(std::span<const std::uint8_t> app1) noexcept {
  if (has_name(app1, 0, kExifMark) && !has_exif_) {
    has_exif_ = true;
    exif_ = exif_orientation(app1);
  } else if (has_name(app1, 0, kXmpMark)) {
    xmp_ = xmp_orientation(app1.subspan(kXmpMark.size()));
  }
}

}  // namespace spdl
