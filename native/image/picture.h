// Decoded pictures, one plane per component. Views only: nothing here owns pixels.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "image/rect.h"

namespace spdl {

// The meaning of the components of a picture. CMYK and YCCK are stored as by Adobe: inverted, 255 is no ink.
enum class ColorModel { kGray, kYCbCr, kRgb, kCmyk, kYcck };

// One component at its own resolution. Its samples cover the picture from edge to edge, so sample i is centred at
// (i + 0.5) / extent of the picture: JPEG's siting (ITU-T T.871, 10.3). Where the picture's size is not a multiple of
// the subsampling, the last sample lies partly outside, and the extent is a fraction below the width.
// Only the part `held` of it may be in memory, while all numbers still count from the corner of the whole: sample (x,
// y) is at data[(y - held.top) * stride + x - held.left]. Each row may be read up to kRowPadding bytes past its end.
struct Component {
  const std::uint8_t* data = nullptr;
  std::size_t stride = 0;
  int width = 0;   // of the whole component
  int height = 0;
  double extent_x = 0;
  double extent_y = 0;
  Rect held;
};

inline constexpr std::size_t kRowPadding = 64;

// Bytes for a row of `width` samples, with room for kernels that continue to the end of a block.
constexpr std::size_t padded(int width) noexcept {
  return (static_cast<std::size_t>(width) + kRowPadding - 1) / kRowPadding * kRowPadding + kRowPadding;
}

// The variant of YCbCr: the weights of the primaries in luma.
enum class YcbcrMatrix { kBt601, kBt709 };

struct Picture {
  ColorModel model = ColorModel::kGray;
  int num_components = 0;  // of colour
  bool has_alpha = false;         // one more component
  bool is_premultiplied = false;  // the colour components were multiplied by alpha
  std::array<Component, 4> components;
  // For YCbCr and transforms whose colour is RGB or BGR; otherwise it is full-range BT.601, as in JPEG.
  YcbcrMatrix matrix = YcbcrMatrix::kBt601;
  bool is_limited_range = false;
};

// Which planes the renderer needs from a decoder.
struct PlanesWanted {
  bool luma_only = false;    // the chroma of YCbCr is left out
  bool keep_alpha = false;   // one more component, unless the picture is opaque; YCbCr with alpha becomes RGB
  bool premultiply = true;   // with alpha: multiply colours by it, as Pillow does before it blends pixels
  bool full_rgb = false;     // YCbCr becomes RGB at full size, whatever `luma_only` says; gray stays gray
};

}  // namespace spdl
