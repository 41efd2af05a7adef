// A plan in terms of the stored picture's directions, and which pixels of it the plan needs.

#pragma once

#include "image/axis.h"
#include "image/orientation.h"
#include "image/rect.h"
#include "image/transform.h"

namespace spdl {

// Of `source` pixels in one direction, [begin, begin + size) becomes `resized` outputs, of which [first, first + count)
// are wanted, in reverse if `is_reversed`.
struct Direction {
  int source = 0;
  int begin = 0;
  int size = 0;
  int resized = 0;
  int first = 0;
  int count = 0;
  bool is_reversed = false;
};

// If `is_transposed`, the result must still be transposed; the directions hold everything else about orientation and
// flips.
struct StoredPlan {
  Direction rows;
  Direction columns;
  bool is_transposed = false;
};

StoredPlan stored_plan(const Plan& plan, Orientation orientation) noexcept;

// The pixels of the stored picture that the plan may use, including those around them that coarser chroma needs.
Rect needed_pixels(const StoredPlan& plan, Interpolation interpolation) noexcept;

// The direction along a component of `size` samples that cover it all with `extent`.
Axis axis_along(const Direction& direction, int size, double extent, Interpolation interpolation) noexcept;

}  // namespace spdl
