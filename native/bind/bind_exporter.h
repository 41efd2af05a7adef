// Buffers of memory that other objects keep alive.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_exporter(nanobind::module_& module);

}  // namespace spdl::bind
