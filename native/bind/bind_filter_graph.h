// Python's view of filter graphs.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_filter_graph(nanobind::module_& module);

}  // namespace spdl::bind
