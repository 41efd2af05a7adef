// Python's view of npy headers and zip directories.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_npy(nanobind::module_& module);

}  // namespace spdl::bind
