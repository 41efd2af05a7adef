// Python's view of bit stream filters.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_bsf(nanobind::module_& module);

}  // namespace spdl::bind
