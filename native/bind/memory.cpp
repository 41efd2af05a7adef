#include "bind/memory.h"

#include <nanobind/stl/string.h>

#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace nb = nanobind;

namespace spdl::bind {
namespace {

constexpr const char* kBufferDoc = R"(An array of ``uint8`` in C order, in memory of its own or in storage of the caller's.

Arrays made from it (``to_numpy``, ``to_torch``, ``memoryview``, DLPack) are views that keep it alive.)";

std::size_t checked_product(const CpuBuffer::Shape& shape) {
  std::size_t product = 1;
  for (const Py_ssize_t side : shape) {
    const auto factor = static_cast<std::size_t>(side);
    if (factor != 0 && product > static_cast<std::size_t>(std::numeric_limits<Py_ssize_t>::max()) / factor) {
      throw Error(ErrorKind::kConvert, "make a batch", "it would have more bytes than memory has addresses");
    }
    product *= factor;
  }
  return product;
}

template <std::size_t n>
nb::tuple as_tuple(const std::array<Py_ssize_t, n>& values) {
  nb::list items;
  for (const Py_ssize_t value : values) {
    items.append(value);
  }
  return nb::tuple(items);
}

nb::dict array_interface(CpuBuffer& buffer) {
  nb::dict interface;
  interface["version"] = 3;
  interface["shape"] = as_tuple(buffer.shape());
  interface["typestr"] = "|u1";
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(buffer.data()), false);
  interface["strides"] = nb::none();
  return interface;
}

// NumPy knows all versions and options of the protocol; its array is a view that keeps the buffer.
nb::object dlpack(nb::handle self, const nb::kwargs& options) {
  return nb::module_::import_("numpy").attr("asarray")(self).attr("__dlpack__")(**options);
}

int get_buffer(PyObject* self, Py_buffer* view, int) noexcept {
  auto* buffer = nb::inst_ptr<CpuBuffer>(self);
  static char format[] = "B";
  view->buf = buffer->data();
  view->obj = Py_NewRef(self);
  view->len = buffer->num_bytes();
  view->itemsize = 1;
  view->readonly = 0;
  view->ndim = static_cast<int>(buffer->shape().size());
  view->format = format;
  view->shape = const_cast<Py_ssize_t*>(buffer->shape().data());
  view->strides = const_cast<Py_ssize_t*>(buffer->strides().data());
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<CpuBuffer>(self)->failures.ptr());
  }
  return 0;
}

int clear(PyObject* self) noexcept {
  nb::inst_ptr<CpuBuffer>(self)->failures.reset();
  return 0;
}

// From Python 3.12 on the type has `__buffer__` by itself; a method of that name would replace the slot and call itself.
PyType_Slot kSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr},
};

}  // namespace

Export::Export(nb::handle object, bool writable, const char* what) {
  if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) != 0) {
    nb::python_error cause;
    const std::string type = nb::cast<std::string>(nb::str(object.type().attr("__name__")));
    const std::string message = std::string(what) + " must be a C-contiguous " + (writable ? "writable " : "") +
                                "buffer, got " + type + ": " + nb::cast<std::string>(nb::str(cause.value()));
    throw nb::type_error(message.c_str());
  }
}

Export::Export(Export&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}

Export& Export::operator=(Export&& other) noexcept {
  release();
  view_ = std::exchange(other.view_, Py_buffer{});
  return *this;
}

void Export::release() noexcept {
  if (view_.obj != nullptr) {
    PyBuffer_Release(&view_);
  }
}

CpuBuffer::CpuBuffer(const Shape& shape, std::optional<Export> storage)
    : failures(nb::make_tuple()), storage_(std::move(storage)), shape_(shape) {
  const std::size_t size = checked_product(shape);
  Py_ssize_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= shape[i];
  }
  if (!storage_) {
    owned_.reserve(size);
  } else if (storage_->size() < size) {
    throw Error(ErrorKind::kConvert, "make a batch in the storage",
                "the batch has " + std::to_string(size) + " bytes and the storage has " +
                    std::to_string(storage_->size()));
  }
}

Py_ssize_t CpuBuffer::num_bytes() const noexcept {
  Py_ssize_t bytes = 1;
  for (const Py_ssize_t side : shape_) {
    bytes *= side;
  }
  return bytes;
}

void register_memory(nb::module_& module) {
  nb::class_<CpuBuffer>(module, "CPUBuffer", nb::type_slots(kSlots), nb::is_weak_referenceable(), kBufferDoc)
      .def_prop_ro(
          "shape", [](const CpuBuffer& self) { return as_tuple(self.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "``(num_images, height, width, channels)``.")
      .def_prop_ro(
          "failures", [](const CpuBuffer& self) { return self.failures; },
          nb::sig("def failures(self) -> tuple[spdl.io._types.LoadFailure, ...]"),
          "What could not be loaded, in order of ``index``; empty when all went well.")
      .def_prop_ro("__array_interface__", &array_interface,
                   nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"),
                   "Version 3 of NumPy's array interface.")
      .def("__dlpack__", &dlpack, nb::sig("def __dlpack__(self, **kwargs: typing.Any) -> typing.Any"))
      .def("__dlpack_device__", [](nb::handle) { return nb::make_tuple(1, 0); },  // kDLCPU
           nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", [](const CpuBuffer& self) {
        return "CPUBuffer<shape=" + nb::cast<std::string>(nb::repr(as_tuple(self.shape()))) + ", dtype=uint8>";
      });
}

}  // namespace spdl::bind
