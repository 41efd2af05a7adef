// Serialized packets and frames as Python buffers, to send to another process, and back. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "media/shared_bytes.h"

namespace spdl::bind {

// A `pickle.PickleBuffer` for each part, which keeps its memory alive; the in-band bytes come first.
nanobind::tuple as_pickle_buffers(Serialized serialized);

// Another object's memory; raises TypeError, with `what` as the subject of the message, if it is not contiguous.
SharedBytes share(nanobind::handle object, const char* what);
std::vector<SharedBytes> share_all(const nanobind::args& objects, const char* what);

void register_shared_bytes(nanobind::module_& module);

}  // namespace spdl::bind
