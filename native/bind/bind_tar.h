// Python's view of tar archives.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_tar(nanobind::module_& module);

}  // namespace spdl::bind
