#include "bind/bind_encoder.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_encoder(nb::module_&) {}

}  // namespace spdl::bind
