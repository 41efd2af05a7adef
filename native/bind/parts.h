// Parts of packets and frames on their way to another process, as buffers of Python's, and back. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "media/part.h"

namespace spdl::bind {

// For a pickle: the joined part first; `pickle.PickleBuffer` of each, which keeps the memory.
nanobind::tuple as_pickle_buffers(Parts parts);

// Another object's memory; raises TypeError, with `what` as the subject of the sentence, if it is not contiguous.
Part part_of(nanobind::handle object, const char* what);
std::vector<Part> parts_of(const nanobind::args& objects, const char* what);

void register_parts(nanobind::module_& module);

}  // namespace spdl::bind
