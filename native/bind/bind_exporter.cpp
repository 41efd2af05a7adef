#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "bind/buffer_view.h"
#include "bind/registration.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kExporterDoc = R"(A buffer of bytes in memory that another object owns; the buffer keeps that object alive.

Made by ``exporter``.)";

struct Exporter {
  std::uint8_t* data;
  std::size_t size;
  nb::object owner;
  bool is_readonly;
};

int get_exporter(PyObject* self, Py_buffer* view, int flags) noexcept {
  const auto* memory = nb::inst_ptr<Exporter>(self);
  return PyBuffer_FillInfo(view, self, memory->data, static_cast<Py_ssize_t>(memory->size),
                           static_cast<int>(memory->is_readonly), flags);
}

int traverse_exporter(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<Exporter>(self)->owner.ptr());
  }
  return 0;
}

// No tp_clear: views of the memory may live while the collector breaks a cycle, and the owner must outlive them. A
// cycle through the owner is broken when the owner is cleared.
PyType_Slot kExporterSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_exporter)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_exporter)},
    {0, nullptr},
};

nb::object exporter_of(nb::handle buffer, nb::object owner, bool as_writable) {
  Py_buffer view;
  if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_ANY_CONTIGUOUS) != 0) {
    throw nb::python_error();
  }
  const bool is_readonly = view.readonly != 0 && !as_writable;
  Exporter memory{static_cast<std::uint8_t*>(view.buf), as_size(view.len), std::move(owner), is_readonly};
  PyBuffer_Release(&view);
  return nb::cast(std::move(memory));
}

nb::bytes copy_to_bytes(nb::handle view) {
  const BufferView source(view, PyBUF_ANY_CONTIGUOUS);
  nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(source.size())));
  if (!bytes.is_valid()) {
    throw nb::python_error();
  }
  // No other thread has a reference to the object yet.
  char* to = PyBytes_AsString(bytes.ptr());
  without_gil_if(source.size() >= kReleaseFrom, [&] {
    if (source.size() > 0) {
      std::memcpy(to, source.data(), source.size());
    }
    return 0;
  });
  return nb::borrow<nb::bytes>(bytes);
}

}  // namespace

void register_exporter(nb::module_& module) {
  nb::class_<Exporter>(module, "Exporter", nb::type_slots(kExporterSlots), nb::is_weak_referenceable(), kExporterDoc)
      .def("__len__", [](const Exporter& memory) { return memory.size; });
  module.def(
      "exporter",
      [](std::uintptr_t address, std::size_t num_bytes, nb::object owner, bool readonly) {
        return nb::cast(Exporter{reinterpret_cast<std::uint8_t*>(address), num_bytes, std::move(owner), readonly});
      },
      "address"_a, "num_bytes"_a, "owner"_a.none(), "readonly"_a,
      nb::sig("def exporter(address: int, num_bytes: int, owner: object, readonly: bool) -> Exporter"),
      "A buffer of bytes at an address, in memory that ``owner`` keeps alive. Nothing is checked.");
  module.def("exporter_of", &exporter_of, "buffer"_a, "owner"_a.none(), "as_writable"_a = false,
             nb::sig("def exporter_of(buffer: typing_extensions.Buffer, owner: object, as_writable: bool = False) "
                     "-> Exporter"),
             R"(The bytes of a contiguous buffer, which ``owner`` keeps alive and in place.

``as_writable``: export read-only memory as writable too, for consumers that will not write.)");
  module.def("copy_to_bytes", &copy_to_bytes, "view"_a,
             nb::sig("def copy_to_bytes(view: typing_extensions.Buffer) -> bytes"),
             "Copy a contiguous buffer, once, and without the GIL if it is large.");
}

}  // namespace spdl::bind
