#include "bind/bind_still.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_still(nb::module_&) {}

}  // namespace spdl::bind
