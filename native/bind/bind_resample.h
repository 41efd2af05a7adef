// Python's view of the resampling and conversions that image loading is made of: for tests.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_resample(nanobind::module_& module);

}  // namespace spdl::bind
