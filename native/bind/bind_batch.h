// Batches of pictures: made empty, loaded slot by slot, shortened.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

void register_batch(nanobind::module_& module);

}  // namespace spdl::bind
