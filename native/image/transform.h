// The geometry and format of image loading: what the user asked for (Transform), and its result for one picture (Plan).
// Values only.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/element_type.h"
#include "image/axis.h"
#include "image/rect.h"

namespace spdl {

enum class Color { kRgb, kBgr, kGray, kRgba, kYcbcr };
enum class Layout { kNhwc, kNchw };

constexpr int num_channels(Color color) noexcept {
  return color == Color::kGray ? 1 : color == Color::kRgba ? 4 : 3;
}

// kShorterSide: that side becomes `side`. kFit: the largest that keeps its shape inside the canvas.
enum class Resize { kNone, kShorterSide, kFit };
enum class Crop { kNone, kCenter, kRandom, kRandomResized, kGiven };

struct Transform {
  int height = 0;
  int width = 0;
  Resize resize = Resize::kNone;
  int side = 0;               // of kShorterSide
  bool is_centered = true;    // of kFit; else at the top left
  Crop crop = Crop::kNone;
  std::array<double, 2> scale{0.08, 1.0};         // of kRandomResized: share of the area
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3};  // and width over height
  Rect given;                 // of kGiven
  double flip = 0;            // probabilities
  double vertical_flip = 0;
  Interpolation interpolation = Interpolation::kBilinear;
  Color color = Color::kRgb;
  ElementType element = kUint8;
  Layout layout = Layout::kNhwc;
  // Floating point elements are level * factor + summand, of each channel.
  std::array<float, 4> factor{1, 1, 1, 1};
  std::array<float, 4> summand{0, 0, 0, 0};
  std::array<std::uint8_t, 4> fill{0, 0, 0, 0};
  bool orient = false;
  bool exact = false;

  std::size_t bytes_per_image() const noexcept {
    return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(num_channels(color)) * static_cast<std::size_t>(element.size);
  }
};

// The geometry of one picture: of its upright form, `crop` is resampled to `resized`, of which `window` is shown at
// `top`, `left` of the canvas; then the whole canvas is mirrored. No sample outside the crop counts.
struct Plan {
  int source_height = 0;
  int source_width = 0;
  Rect crop;
  int resized_height = 0;
  int resized_width = 0;
  Rect window;
  int top = 0;
  int left = 0;
  bool flip = false;
  bool vertical_flip = false;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// The plan of a transform for an upright picture of this size. Depends only on its arguments, on every machine. Throws
// Error(kDecode) if a given crop is not inside the picture.
Plan plan_for(const Transform& transform, int height, int width, std::uint64_t seed);

}  // namespace spdl
