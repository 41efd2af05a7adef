// Python's view of the way from frames to arrays and from arrays to frames.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_convert(nanobind::module_& module);

}  // namespace spdl::bind
