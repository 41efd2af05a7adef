#include "bind/bind_still.h"

#include "image/batch.h"
#include "media/still.h"

namespace nb = nanobind;

namespace spdl::bind {

void register_still(nb::module_& module) {
  module.def(
      "general_way", [] { return nb::capsule(&general_way(), kGeneralWayCapsule); }, nb::sig("def general_way() -> object"),
      "What ``_core.load_batch`` needs to load images that are not JPEG.");
}

}  // namespace spdl::bind
