// How the extensions share one budget of memory, and what tests see of it. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_memory_budget(nanobind::module_& module);

// Has this extension use that of the given one, which is _core.
void share_memory_budget_of(nanobind::handle core);

}  // namespace spdl::bind
