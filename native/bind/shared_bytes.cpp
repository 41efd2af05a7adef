#include "bind/shared_bytes.h"

#include <memory>
#include <utility>

#include "bind/memory.h"

namespace nb = nanobind;

namespace spdl::bind {
namespace {

constexpr const char* kDoc = "Memory of packets or frames in transport to another process: a read-only buffer of bytes.";

// The Python class SharedBytes.
struct BytesObject {
  SharedBytes shared;
};

int get_bytes(PyObject* self, Py_buffer* view, int flags) noexcept {
  const auto bytes = nb::inst_ptr<BytesObject>(self)->shared.bytes;
  return PyBuffer_FillInfo(view, self, const_cast<std::uint8_t*>(bytes.data()), static_cast<Py_ssize_t>(bytes.size()),
                           1, flags);
}

PyType_Slot kSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_bytes)},
    {0, nullptr},
};

}  // namespace

nb::tuple as_pickle_buffers(Serialized serialized) {
  const nb::object pickle_buffer = nb::module_::import_("pickle").attr("PickleBuffer");
  nb::list buffers;
  const auto add = [&](SharedBytes shared) {
    buffers.append(pickle_buffer(nb::cast(new BytesObject{std::move(shared)}, nb::rv_policy::take_ownership)));
  };
  add(std::move(serialized.in_band));
  for (SharedBytes& shared : serialized.out_of_band) {
    add(std::move(shared));
  }
  return nb::tuple(buffers);
}

SharedBytes share(nb::handle object, const char* what) {
  auto exported = std::make_unique<DeferredExport>(object, what);
  const std::span<const std::uint8_t> bytes(exported->memory.data(), exported->memory.size());
  // Called by whoever drops the last reference, with or without the GIL.
  const auto drop = [](DeferredExport* done) { drop_soon(std::unique_ptr<DeferredExport>(done)); };
  return {bytes, std::shared_ptr<const void>(exported.release(), drop)};
}

std::vector<SharedBytes> share_all(const nb::args& objects, const char* what) {
  std::vector<SharedBytes> all;
  for (const nb::handle object : objects) {
    all.push_back(share(object, what));
  }
  return all;
}

void register_shared_bytes(nb::module_& module) {
  nb::class_<BytesObject>(module, "SharedBytes", nb::type_slots(kSlots), nb::is_final(), kDoc);
}

}  // namespace spdl::bind
