#include "bind/bind_tar.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_tar(nb::module_&) {}

}  // namespace spdl::bind
