// Python's view of the JPEG loader.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_jpeg(nanobind::module_& module);

}  // namespace spdl::bind
