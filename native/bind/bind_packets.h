// Python's view of packets and codecs.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_packets(nanobind::module_& module);

}  // namespace spdl::bind
