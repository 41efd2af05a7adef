#include "bind/bind_convert.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_convert(nb::module_&) {}

}  // namespace spdl::bind
