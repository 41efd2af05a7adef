#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "base/large_memory.h"
#include "base/memory_limit.h"
#include "bind/gil.h"
#include "bind/registration.h"

namespace nb = nanobind;
using namespace nb::literals;

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
      "Number and total bytes of freed large blocks that are kept for reuse.");
  module.def(
      "release_large_memory", [] { large_memory().release(); }, nb::call_guard<GilReleased>(),
      "Free them.");
  module.def(
      "large_memory_limit", [] { return large_memory().limit(); }, "Limit on the bytes that are kept.");
  module.def(
      "set_large_memory_limit",
      [](std::optional<std::size_t> num_bytes) {
        large_memory().set_limit(num_bytes ? *num_bytes : LargeMemory::default_limit());
      },
      "num_bytes"_a.none(), nb::call_guard<GilReleased>(),
      "Set the limit on the bytes that are kept; None restores the default. Excess memory is freed.");
  module.def(
      "set_large_memory_patience",
      [](double seconds) {
        large_memory().set_longest(
            std::chrono::duration_cast<LargeMemory::Clock::duration>(std::chrono::duration<double>(seconds)));
      },
      "seconds"_a, "Set the age from which kept blocks are freed; checked when other blocks are allocated or freed.");
  module.def(
      "memory_limit", [](const std::string& root) { return memory_limit(root); }, "root"_a = "/",
      "Number of bytes of memory that this process can have, according to the system's files below ``root``.");
}

void share_large_memory_of(nb::handle core) {
  auto* memory = static_cast<LargeMemory*>(PyCapsule_GetPointer(nb::object(core.attr(kAttribute)).ptr(), kCapsule));
  if (memory == nullptr) {
    throw nb::python_error();
  }
  share_large_memory(*memory);
}

}  // namespace spdl::bind
