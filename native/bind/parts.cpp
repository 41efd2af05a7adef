#include "bind/parts.h"

#include <memory>
#include <utility>

#include "bind/memory.h"

namespace nb = nanobind;

namespace spdl::bind {
namespace {

constexpr const char* kDoc = "Memory of packets or frames in transport to another process: a read-only buffer of bytes.";

// What Python knows as MemoryPart.
struct MemoryPart {
  Part part;
};

int get_part(PyObject* self, Py_buffer* view, int flags) noexcept {
  const auto bytes = nb::inst_ptr<MemoryPart>(self)->part.bytes;
  return PyBuffer_FillInfo(view, self, const_cast<std::uint8_t*>(bytes.data()), static_cast<Py_ssize_t>(bytes.size()),
                           1, flags);
}

PyType_Slot kSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_part)},
    {0, nullptr},
};

}  // namespace

nb::tuple as_pickle_buffers(Parts parts) {
  const nb::object pickle_buffer = nb::module_::import_("pickle").attr("PickleBuffer");
  nb::list buffers;
  const auto add = [&](Part part) {
    buffers.append(pickle_buffer(nb::cast(new MemoryPart{std::move(part)}, nb::rv_policy::take_ownership)));
  };
  add(std::move(parts.joined));
  for (Part& part : parts.beside) {
    add(std::move(part));
  }
  return nb::tuple(buffers);
}

Part part_of(nb::handle object, const char* what) {
  auto exported = std::make_unique<DeferredExport>(object, what);
  const std::span<const std::uint8_t> bytes(exported->memory.data(), exported->memory.size());
  // The last user drops it, with or without the GIL.
  const auto drop = [](DeferredExport* done) { drop_soon(std::unique_ptr<DeferredExport>(done)); };
  return {bytes, std::shared_ptr<const void>(exported.release(), drop)};
}

std::vector<Part> parts_of(const nb::args& objects, const char* what) {
  std::vector<Part> parts;
  for (const nb::handle object : objects) {
    parts.push_back(part_of(object, what));
  }
  return parts;
}

void register_parts(nb::module_& module) {
  nb::class_<MemoryPart>(module, "MemoryPart", nb::type_slots(kSlots), nb::is_final(), kDoc);
}

}  // namespace spdl::bind
