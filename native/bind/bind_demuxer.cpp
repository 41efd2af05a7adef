#include "bind/bind_demuxer.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_demuxer(nb::module_&) {}

}  // namespace spdl::bind
