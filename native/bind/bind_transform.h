// ImageTransform's native form, and plans as Python objects. Hold the GIL in all of these functions.

#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "image/transform.h"

namespace spdl::bind {

// A plan from the tuple that `Transform.plan` gives, for a canvas of that transform. Raises ValueError for a plan that
// is incomplete or does not fit, RuntimeError for any other object.
Plan parse_plan(nanobind::handle tuple, const Transform& transform);

// One of Pillow's names, in lower case. Raises ValueError for another.
Interpolation parse_interpolation(const std::string& name);

}  // namespace spdl::bind
