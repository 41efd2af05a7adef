// The only EXIF field that changes how a picture is shown, and the same field in XMP.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace spdl {

inline constexpr int kUprightOrientation = 1;

// The number in the orientation field of a TIFF structure, which need not be one of 1 to 8; none if there is no such
// field, or the data is damaged.
std::optional<int> tiff_orientation(std::span<const std::uint8_t> tiff) noexcept;

// The same for EXIF data: a TIFF structure, with a signature in front of it or without.
std::optional<int> exif_orientation(std::span<const std::uint8_t> exif) noexcept;

// The same for a packet of XMP (ISO 16684-1): of `tiff:Orientation`, as an attribute or an element.
std::optional<int> xmp_orientation(std::span<const std::uint8_t> xmp) noexcept;

// What to do about such a number: 1 unless it is one of 1 to 8.
int shown_orientation(std::optional<int> stored) noexcept;

// Orientation of a JPEG, from the contents of its APP1 segments, in order. As in Pillow, the first EXIF data counts, and
// XMP, of which the last counts, if that has no orientation.
class JpegOrientation {
 public:
  void add(std::span<const std::uint8_t> app1) noexcept;
  int shown() const noexcept { return shown_orientation(exif_ ? exif_ : xmp_); }

 private:
  bool has_exif_ = false;
  std::optional<int> exif_;
  std::optional<int> xmp_;
};

}  // namespace spdl
