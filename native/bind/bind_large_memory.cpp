#include "bind/bind_large_memory.h"

#include "base/large_memory.h"
#include "bind/gil.h"

namespace nb = nanobind;

namespace spdl::bind {
namespace {

constexpr const char* kAttribute = "_large_memory";
constexpr const char* kCapsule = "spdl.large_memory";

}  // namespace

void register_large_memory(nb::module_& module) {
  protect_from_fork();
  module.attr(kAttribute) = nb::capsule(&large_memory(), kCapsule);
  module.def(
      "large_memory",
      [] {
        const LargeMemory::Kept kept = large_memory().kept();
        return nb::make_tuple(kept.num_blocks, kept.num_bytes);
      },
      nb::sig("def large_memory() -> tuple[int, int]"),
      "Large blocks of memory that were freed and are kept for reuse: their number, and their bytes.");
  module.def(
      "release_large_memory", [] { large_memory().release(); }, nb::call_guard<GilReleased>(),
      "Free them.");
}

void share_large_memory_of(nb::handle core) {
  auto* memory = static_cast<LargeMemory*>(PyCapsule_GetPointer(nb::object(core.attr(kAttribute)).ptr(), kCapsule));
  if (memory == nullptr) {
    throw nb::python_error();
  }
  share_large_memory(*memory);
}

}  // namespace spdl::bind
