#include "base/memory_budget.h"
#include "bind/registration.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kAttribute = "_memory_budget";
constexpr const char* kCapsule = "spdl.memory_budget";

}  // namespace

void register_memory_budget(nb::module_& module) {
  reset_memory_budget_after_fork();
  module.attr(kAttribute) = nb::capsule(&memory_budget(), kCapsule);
  module.def(
      "set_memory_budget", [](std::size_t num_bytes) { return memory_budget().set_limit(num_bytes); }, "num_bytes"_a,
      "Set how much memory all threads together may use for decoding large pictures. Returns the previous limit.");
  module.def(
      "take_memory_peak", [] { return memory_budget().take_peak(); },
      "Peak of that memory since the last call.");
}

void share_memory_budget_of(nb::handle core) {
  auto* budget = static_cast<MemoryBudget*>(PyCapsule_GetPointer(nb::object(core.attr(kAttribute)).ptr(), kCapsule));
  if (budget == nullptr) {
    throw nb::python_error();
  }
  share_memory_budget(*budget);
}

}  // namespace spdl::bind
