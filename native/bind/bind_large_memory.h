// How the extensions share one store of large memory, and what tests see of it. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_large_memory(nanobind::module_& module);

// Has this extension use that of the given one, which is _core.
void share_large_memory_of(nanobind::handle core);

}  // namespace spdl::bind
