// Python's view of the general way for images of a batch.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_still(nanobind::module_& module);

}  // namespace spdl::bind
