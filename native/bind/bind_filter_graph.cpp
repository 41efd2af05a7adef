#include "bind/bind_filter_graph.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_filter_graph(nb::module_&) {}

}  // namespace spdl::bind
