// Python's view of demuxing.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_demuxer(nanobind::module_& module);

}  // namespace spdl::bind
