#include "bind/bind_decoder.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_decoder(nb::module_&) {}

}  // namespace spdl::bind
