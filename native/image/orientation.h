// How an encoded picture must be turned to be upright: the meaning of orientations, and where formats store them.

#pragma once

#include <cstdint>
#include <span>

namespace spdl {

// Numbered as in EXIF (JEITA CP-3451, 4.6.4 A, tag 274).
enum class Orientation : int {
  kUpright = 1,
  kMirrored = 2,
  kUpsideDown = 3,
  kMirroredUpsideDown = 4,
  kTransposed = 5,
  kLeftSideUp = 6,
  kTransversed = 7,
  kRightSideUp = 8,
};

// Whether columns of the stored picture are rows of the upright one.
constexpr bool swaps_sides(Orientation orientation) noexcept { return orientation >= Orientation::kTransposed; }

// Whether stored columns, from left to right, are upright columns from right to left, or rows from bottom to top.
constexpr bool reverses_columns(Orientation orientation) noexcept {
  return orientation == Orientation::kMirrored || orientation == Orientation::kUpsideDown ||
         orientation == Orientation::kTransversed || orientation == Orientation::kRightSideUp;
}

// The same for stored rows.
constexpr bool reverses_rows(Orientation orientation) noexcept {
  return orientation == Orientation::kUpsideDown || orientation == Orientation::kMirroredUpsideDown ||
         orientation == Orientation::kLeftSideUp || orientation == Orientation::kTransversed;
}

// The orientation as EXIF numbers it (1 to 8): of JPEG (EXIF and XMP in APP1), PNG (eXIf, a raw profile, XMP), WebP (EXIF,
// XMP), TIFF (tag 274, XMP), AVIF (irot and imir of the primary item). EXIF counts before XMP, as in Pillow. 1 for other
// formats, and if the orientation is missing or damaged. HEIF is turned while it is decoded.
int stored_orientation(std::span<const std::uint8_t> data) noexcept;

}  // namespace spdl
