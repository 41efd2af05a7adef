#include "bind/bind_wav.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_wav(nb::module_&) {}

}  // namespace spdl::bind
