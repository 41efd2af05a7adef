// Python's view of WAV headers.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_wav(nanobind::module_& module);

}  // namespace spdl::bind
