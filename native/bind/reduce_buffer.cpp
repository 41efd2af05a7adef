#include "bind/reduce_buffer.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bind/memory.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kRestoreDoc = R"(A CPUBuffer whose memory already holds the elements.

Args:
    memory: A buffer of exactly the right size. The result keeps it alive, and is read-only if the buffer is.
    shape, typestr: As for ``new_buffer``.
    failures, origins: The values of these attributes.
    plans: What ``__reduce_ex__`` returned for ``applied``.
    excerpts: The value of this attribute.)";

// A plan as numbers: whether there is one, and its fields in their order.
using PlanNumbers = std::array<std::int32_t, 17>;

PlanNumbers numbers_of(const std::optional<Plan>& plan) noexcept {
  if (!plan) {
    return {};
  }
  const Plan& p = *plan;
  return {1, p.source_height, p.source_width, p.crop.top, p.crop.left, p.crop.height, p.crop.width, p.resized_height,
          p.resized_width, p.window.top, p.window.left, p.window.height, p.window.width, p.top, p.left, p.flip ? 1 : 0,
          p.vertical_flip ? 1 : 0};
}

std::optional<Plan> plan_of(const PlanNumbers& n) noexcept {
  if (n[0] == 0) {
    return std::nullopt;
  }
  return Plan{n[1], n[2], {n[3], n[4], n[5], n[6]}, n[7], n[8], {n[9], n[10], n[11], n[12]}, n[13], n[14],
              n[15] != 0, n[16] != 0};
}

// The canvas, then the plans; None for a buffer without plans.
nb::object as_state(const CpuBuffer& buffer) {
  const CpuBuffer::Plans plans = buffer.plans();
  if (plans.of_images.empty()) {
    return nb::none();
  }
  std::vector<PlanNumbers> numbers;
  for (const std::optional<Plan>& plan : plans.of_images) {
    numbers.push_back(numbers_of(plan));
  }
  const nb::bytes bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(PlanNumbers));
  return nb::make_tuple(plans.canvas_height, plans.canvas_width, bytes);
}

void set_state(CpuBuffer& buffer, const nb::object& state) {
  if (state.is_none()) {
    return;
  }
  const nb::tuple fields = nb::cast<nb::tuple>(state);
  const auto bytes = nb::cast<nb::bytes>(fields[2]);
  if (bytes.size() % sizeof(PlanNumbers) != 0) {
    throw nb::value_error("the size of plans is wrong");
  }
  std::vector<PlanNumbers> numbers(bytes.size() / sizeof(PlanNumbers));
  std::memcpy(numbers.data(), bytes.c_str(), bytes.size());
  CpuBuffer::Plans restored{{}, nb::cast<int>(fields[0]), nb::cast<int>(fields[1])};
  for (const PlanNumbers& each : numbers) {
    restored.of_images.push_back(plan_of(each));
  }
  buffer.change_plans([&](CpuBuffer::Plans& plans) { plans = std::move(restored); });
}

nb::object restore_buffer(const nb::object& memory, const nb::tuple& sides, const std::string& typestr,
                          const nb::tuple& failures, const nb::tuple& origins, const nb::object& plans,
                          const nb::tuple& excerpts) {
  nb::object object = make_buffer_of(memory, shape_of(sides), parse_typestr(typestr));
  CpuBuffer& buffer = buffer_in(object);
  buffer.failures = failures;
  buffer.origins = origins;
  buffer.excerpts = excerpts;
  set_state(buffer, plans);
  return object;
}

}  // namespace

nb::tuple reduce_buffer(nb::handle self, int protocol) {
  const CpuBuffer& buffer = buffer_in(self);
  // Before protocol 5 there are no out-of-band buffers, so the pickle contains a copy.
  const nb::object memory = protocol >= 5 ? nb::module_::import_("pickle").attr("PickleBuffer")(self)
                                          : nb::module_::import_("builtins").attr("bytearray")(self);
  const std::string typestr = buffer.type() == kBfloat16 ? name_of(buffer.type()) : typestr_of(buffer.type());
  return nb::make_tuple(
      nb::module_::import_("spdl.io._restore").attr("restore_buffer"),
      nb::make_tuple(memory, self.attr("shape"), typestr, buffer.failures, buffer.origins, as_state(buffer),
                     buffer.excerpts));
}

void register_restore_buffer(nb::module_& module) {
  module.def("restore_buffer", &restore_buffer, "memory"_a, "shape"_a, "typestr"_a, "failures"_a, "origins"_a,
             "plans"_a.none(), "excerpts"_a,
             nb::sig("def restore_buffer(memory: typing_extensions.Buffer, shape: tuple[int, ...], typestr: str, "
                     "failures: tuple[spdl.io._types.LoadFailure, ...], origins: tuple[int | None, ...], "
                     "plans: tuple[int, int, bytes] | None, "
                     "excerpts: tuple[spdl.io._types.Excerpt | None, ...]) -> CPUBuffer"),
             kRestoreDoc);
}

}  // namespace spdl::bind
