// Python's view of encoders and muxers.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_encoder(nanobind::module_& module);

}  // namespace spdl::bind
