#include "bind/bind_packets.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_packets(nb::module_&) {}

}  // namespace spdl::bind
