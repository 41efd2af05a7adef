// Python's view of muxers.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_muxer(nanobind::module_& module);

}  // namespace spdl::bind
