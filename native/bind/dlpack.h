// DLPack capsules of elements that NumPy has no type for. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

// Says of a capsule of 16-bit integers that has not been consumed yet that they are bfloat16.
void relabel_as_bfloat16(nanobind::handle capsule);

}  // namespace spdl::bind
