// Pickling of CPUBuffer; its memory may travel out of band. Hold the GIL in all of these functions.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

nanobind::tuple reduce_buffer(nanobind::handle self, int protocol);

void register_restore_buffer(nanobind::module_& module);

}  // namespace spdl::bind
