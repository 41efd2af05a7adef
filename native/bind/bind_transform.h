// ImageTransform's native form, and plans in Python's words. The GIL is held in all of it.

#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "image/transform.h"

namespace spdl::bind {

// A plan from the tuple that `Transform.plan` gives, for a canvas of that transform. Raises ValueError for one that is
// not whole or does not fit, RuntimeError for something else.
Plan parse_plan(nanobind::handle tuple, const Transform& transform);

// One of Pillow's names, in lower case. Raises ValueError for another.
Interpolation parse_interpolation(const std::string& name);

}  // namespace spdl::bind
