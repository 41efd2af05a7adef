#include "image/draw.h"

#include <algorithm>
#include <cstring>

namespace spdl {
namespace {

constexpr std::size_t padded(int width) noexcept {
  return round_up(static_cast<std::size_t>(width), kBlock) + kRowPadding;
}

// a * b / 255 to the nearest.
constexpr std::uint8_t scale255(int a, int b) noexcept {
  const int product = a * b + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

// Blackens what of the canvas the picture leaves free.
void fill_borders(const Placement& at, const Canvas& canvas) noexcept {
  const std::size_t pixel = bytes_per_pixel(canvas.format);
  const std::size_t stride = canvas.stride();
  const auto before = static_cast<std::size_t>(at.left) * pixel;
  const auto after = static_cast<std::size_t>(canvas.width - at.left - at.width) * pixel;
  std::memset(canvas.data, 0, static_cast<std::size_t>(at.top) * stride);
  if (before + after > 0) {
    for (int y = at.top; y < at.top + at.height; ++y) {
      std::uint8_t* row = canvas.data + static_cast<std::size_t>(y) * stride;
      std::memset(row, 0, before);
      std::memset(row + stride - after, 0, after);
    }
  }
  const int below = at.top + at.height;
  std::memset(canvas.data + static_cast<std::size_t>(below) * stride, 0,
              static_cast<std::size_t>(canvas.height - below) * stride);
}

// Copies `from`, which is `width` x `height` and not upright, to its place.
void turn(const std::uint8_t* from, int width, int height, Orientation orientation, std::uint8_t* to,
          std::ptrdiff_t to_stride, std::ptrdiff_t pixel) noexcept {
  const bool swaps = swaps_sides(orientation);
  const bool flips_x = orientation == Orientation::kMirrored || orientation == Orientation::kUpsideDown ||
                       orientation == Orientation::kTransversed || orientation == Orientation::kRightSideUp;
  const bool flips_y = orientation == Orientation::kUpsideDown || orientation == Orientation::kMirroredUpsideDown ||
                       orientation == Orientation::kLeftSideUp || orientation == Orientation::kTransversed;
  // The target's address is linear in the source's x and y.
  const std::ptrdiff_t along_x = (swaps ? to_stride : pixel) * (flips_x ? -1 : 1);
  const std::ptrdiff_t along_y = (swaps ? pixel : to_stride) * (flips_y ? -1 : 1);
  std::ptrdiff_t start = 0;
  start -= flips_x ? along_x * (width - 1) : 0;
  start -= flips_y ? along_y * (height - 1) : 0;
  for (int y = 0; y < height; ++y) {
    std::ptrdiff_t at = start + y * along_y;
    for (int x = 0; x < width; ++x) {
      std::memcpy(to + at, from, static_cast<std::size_t>(pixel));
      from += pixel;
      at += along_x;
    }
  }
}

}  // namespace

void Artist::prepare(const Component& component, int width, int height, Strip& strip) {
  const Axis vertical{.size = component.height, .extent = component.extent_y, .resized = height, .count = height};
  const Axis horizontal{.size = component.width, .extent = component.extent_x, .resized = width, .count = width};
  strip.begin(component, vertical, horizontal, false, taps_, kernels_);
}

const std::uint8_t* Artist::convert_row(ColorModel model, PixelFormat format, int index, int width) {
  const auto row_of = [&](std::size_t strip) { return strips_[strip].row(index); };
  const bool gray = format == PixelFormat::kGray;
  if (gray && (model == ColorModel::kGray || model == ColorModel::kYCbCr)) {
    return row_of(0);
  }
  const std::size_t plane = padded(width);
  std::uint8_t* red = line_.data();
  std::uint8_t* green = red + plane;
  std::uint8_t* blue = green + plane;
  std::uint8_t* packed = blue + plane;
  const std::uint8_t* rgb[3] = {red, green, blue};
  switch (model) {
    case ColorModel::kGray:
      rgb[0] = rgb[1] = rgb[2] = row_of(0);
      break;
    case ColorModel::kRgb:
      for (std::size_t i = 0; i < 3; ++i) {
        rgb[i] = row_of(i);
      }
      break;
    case ColorModel::kYCbCr:
    case ColorModel::kYcck:
      kernels_.ycbcr_to_rgb(row_of(0), row_of(1), row_of(2), red, green, blue, width);
      break;
    case ColorModel::kCmyk:
      for (std::size_t i = 0; i < 3; ++i) {
        std::memcpy(red + i * plane, row_of(i), static_cast<std::size_t>(width));
      }
      break;
  }
  if (model == ColorModel::kCmyk || model == ColorModel::kYcck) {
    // Inverted inks are light, and what black lets through multiplies it. YCCK holds the inks' complement as YCbCr.
    const std::uint8_t* black = row_of(3);
    const bool complement = model == ColorModel::kYcck;
    for (std::size_t i = 0; i < 3; ++i) {
      std::uint8_t* light = red + i * plane;
      for (int x = 0; x < width; ++x) {
        light[x] = scale255(complement ? 255 - light[x] : light[x], black[x]);
      }
    }
  }
  if (gray) {
    // Luma of ITU-T T.871, in multiples of 2^-16; the three weights sum to one.
    for (int x = 0; x < width; ++x) {
      packed[x] = static_cast<std::uint8_t>((19595 * rgb[0][x] + 38470 * rgb[1][x] + 7471 * rgb[2][x] + 32768) >> 16);
    }
  } else if (format == PixelFormat::kBgr24) {
    kernels_.interleave(rgb[2], rgb[1], rgb[0], packed, width);
  } else {
    kernels_.interleave(rgb[0], rgb[1], rgb[2], packed, width);
  }
  return packed;
}

void Artist::draw_upright(const Picture& picture, int width, int height, PixelFormat format, std::uint8_t* out,
                          std::size_t stride) {
  const bool luma_only = format == PixelFormat::kGray && picture.model == ColorModel::kYCbCr;
  const auto used = static_cast<std::size_t>(luma_only ? 1 : picture.num_components);
  for (std::size_t i = 0; i < used; ++i) {
    prepare(picture.components[i], width, height, strips_[i]);
  }
  line_.reserve(6 * padded(width));
  const std::size_t row_bytes = static_cast<std::size_t>(width) * bytes_per_pixel(format);
  for (int top = 0; top < height; top += kTileRows) {
    const int num_rows = std::min(kTileRows, height - top);
    for (std::size_t i = 0; i < used; ++i) {
      strips_[i].make_rows(top, num_rows);
    }
    for (int y = 0; y < num_rows; ++y) {
      std::memcpy(out, convert_row(picture.model, format, y, width), row_bytes);
      out += stride;
    }
  }
}

void Artist::draw(const Picture& picture, Orientation orientation, Placement placement, const Canvas& canvas) {
  fill_borders(placement, canvas);
  const std::size_t pixel = bytes_per_pixel(canvas.format);
  std::uint8_t* corner = canvas.data + static_cast<std::size_t>(placement.top) * canvas.stride() +
                         static_cast<std::size_t>(placement.left) * pixel;
  if (orientation == Orientation::kUpright) {
    draw_upright(picture, placement.width, placement.height, canvas.format, corner, canvas.stride());
    return;
  }
  const bool swaps = swaps_sides(orientation);
  const int width = swaps ? placement.height : placement.width;
  const int height = swaps ? placement.width : placement.height;
  const std::size_t stride = static_cast<std::size_t>(width) * pixel;
  std::uint8_t* unturned = unturned_.reserve(stride * static_cast<std::size_t>(height));
  draw_upright(picture, width, height, canvas.format, unturned, stride);
  turn(unturned, width, height, orientation, corner, static_cast<std::ptrdiff_t>(canvas.stride()),
       static_cast<std::ptrdiff_t>(pixel));
}

void Artist::trim(std::size_t keep_bytes) noexcept {
  for (Buffer* buffer : {&line_, &unturned_}) {
    if (buffer->capacity() > keep_bytes) {
      buffer->release();
    }
  }
  for (Strip& strip : strips_) {
    strip.trim(keep_bytes);
  }
}

}  // namespace spdl
