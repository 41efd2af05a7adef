#include "bind/bind_library.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_library(nb::module_&) {}

}  // namespace spdl::bind
