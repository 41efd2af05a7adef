// Python's view of frames.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_frames(nanobind::module_& module);

}  // namespace spdl::bind
