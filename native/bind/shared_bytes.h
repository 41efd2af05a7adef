// Bytes of packets and frames for another process as Python buffers, and back. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "media/shared_bytes.h"

namespace spdl::bind {

// A `pickle.PickleBuffer` of each, which keeps the memory; the in-band bytes come first.
nanobind::tuple as_pickle_buffers(Serialized serialized);

// Another object's memory; raises TypeError, with `what` as the subject of the sentence, if it is not contiguous.
SharedBytes share(nanobind::handle object, const char* what);
std::vector<SharedBytes> share_all(const nanobind::args& objects, const char* what);

void register_shared_bytes(nanobind::module_& module);

}  // namespace spdl::bind
