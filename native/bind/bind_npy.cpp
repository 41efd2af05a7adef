#include "bind/bind_npy.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_npy(nb::module_&) {}

}  // namespace spdl::bind
