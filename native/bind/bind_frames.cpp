#include "bind/bind_frames.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_frames(nb::module_&) {}

}  // namespace spdl::bind
