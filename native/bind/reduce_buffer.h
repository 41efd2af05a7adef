// CPUBuffer to a pickle and back; its memory may go out of band. The GIL is held in all of it.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

nanobind::tuple reduce_buffer(nanobind::handle self, int protocol);

void register_restore_buffer(nanobind::module_& module);

}  // namespace spdl::bind
