// The thread that writes to a connection.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

// After `register_shared`, which makes OSError of system errors.
void register_writer(nanobind::module_& module);

}  // namespace spdl::bind
