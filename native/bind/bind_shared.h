// Shared memory as Python sees it: areas, senders, views; and the watch of the parent.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_shared(nanobind::module_& module);

}  // namespace spdl::bind
