// DLPack capsules of elements that NumPy has no type for. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

// Changes the type of a capsule of 16-bit integers, not yet consumed, to bfloat16.
void relabel_as_bfloat16(nanobind::handle capsule);

}  // namespace spdl::bind
