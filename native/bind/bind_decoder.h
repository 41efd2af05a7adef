// Python's view of decoding.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_decoder(nanobind::module_& module);

}  // namespace spdl::bind
