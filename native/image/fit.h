// Where a picture goes on a canvas of another shape.

#pragma once

#include <algorithm>
#include <cstdint>

namespace spdl {

struct Placement {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

// a * b / c to the nearest, halves away from zero (positive values), as libavutil's av_rescale; within [1, most].
constexpr int rescale(int a, int b, int c, int most) noexcept {
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{a} * b + c / 2) / c, 1, most));
}

// The largest placement of a width x height picture inside the canvas that keeps its shape, centred. These are the
// numbers of FFmpeg's `scale=force_original_aspect_ratio=decrease` and `pad=x=-1:y=-1`. A side that would round to 0,
// which FFmpeg refuses, becomes one pixel. All sizes are positive.
constexpr Placement fit_inside(int width, int height, int canvas_width, int canvas_height) noexcept {
  Placement fit;
  fit.width = rescale(canvas_height, width, height, canvas_width);
  fit.height = rescale(canvas_width, height, width, canvas_height);
  fit.left = (canvas_width - fit.width) / 2;
  fit.top = (canvas_height - fit.height) / 2;
  return fit;
}

}  // namespace spdl
