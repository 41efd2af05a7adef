#include "bind/bind_bsf.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_bsf(nb::module_&) {}

}  // namespace spdl::bind
