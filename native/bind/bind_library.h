// Python's view of FFmpeg itself: versions, filters, log level.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_library(nanobind::module_& module);

}  // namespace spdl::bind
