#include "bind/memory.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "bind/dlpack.h"
#include "bind/reduce_buffer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kBufferDoc = R"(An array in C order, in its own memory or in the caller's storage.

Arrays made from it (``to_numpy``, ``to_torch``, ``memoryview``, DLPack) are views that keep it alive.

It can be pickled, with all its attributes. From protocol 5 on its memory may travel out of band; the restored
buffer is a view of the memory that arrived, read-only if that memory is.)";

constexpr const char* kExcerptsDoc =
    R"(For a batch of clips or sounds: the part of its source in each item, as an ``Excerpt``. ``None`` for zeros.)";

constexpr const char* kOriginsDoc =
    R"(The source of each image in a batch that was made with a transform; empty for every other buffer.

The position of the image's source, or ``len(srcs) + k`` for spare ``k``; None for an image that is only zeros.)";

constexpr const char* kAppliedDoc =
    R"(The geometry of each image in a batch that was made with a transform: one ``AppliedTransform`` each.

None for an image that is only zeros. Empty for every other buffer. Computed on first access.)";

constexpr const char* kStorageDoc = R"(A block of memory for results, made by ``cpu_storage``.

It is a writable buffer of bytes. A result stored in it is a view of it and keeps it alive; storing another result
overwrites earlier ones.)";

constexpr const char* kNewBufferDoc = R"(Make an uninitialized buffer.

Args:
    shape: The sizes, any number of them, none negative.
    typestr: NumPy's type string of an integer or floating-point type, in the byte order of this machine; or "bfloat16",
        for which NumPy has no type string.
    storage: Writable memory for the array, or None for memory of its own.)";

// The Python class CPUStorage.
struct CpuStorage {
  explicit CpuStorage(std::size_t num_bytes) : memory(num_bytes), size(static_cast<Py_ssize_t>(num_bytes)) {}

  Buffer memory;
  Py_ssize_t size;
};

std::size_t checked_num_bytes(const CpuBuffer::Shape& shape, ElementType type) {
  bool is_empty = false;
  auto product = static_cast<std::size_t>(type.size);
  for (const Py_ssize_t side : shape) {
    const auto factor = static_cast<std::size_t>(side);
    is_empty |= factor == 0;
    if (factor != 0 && product > static_cast<std::size_t>(std::numeric_limits<Py_ssize_t>::max()) / factor) {
      throw Error(ErrorKind::kConvert, "make an array", "it would be larger than the address space");
    }
    product *= std::max<std::size_t>(factor, 1);
  }
  return is_empty ? 0 : product;
}

nb::tuple as_tuple(std::span<const Py_ssize_t> values) {
  nb::list items;
  for (const Py_ssize_t value : values) {
    items.append(value);
  }
  return nb::tuple(items);
}

nb::str as_str(const std::string& text) { return nb::str(text.c_str(), text.size()); }

[[noreturn]] void refuse_bfloat16(const char* attribute) {
  PyErr_Format(PyExc_AttributeError,
               "a buffer of bfloat16 has no %s, as NumPy has no such type; use to_torch, or to_numpy with ml_dtypes",
               attribute);
  throw nb::python_error();
}

nb::dict array_interface(CpuBuffer& buffer) {
  if (buffer.type() == kBfloat16) {
    refuse_bfloat16("__array_interface__");
  }
  nb::dict interface;
  interface["version"] = 3;
  interface["shape"] = as_tuple(buffer.shape());
  interface["typestr"] = as_str(typestr_of(buffer.type()));
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(buffer.data()), buffer.is_readonly());
  interface["strides"] = nb::none();
  return interface;
}

nb::object dtype_of(const CpuBuffer& buffer) {
  if (buffer.type() == kBfloat16) {
    refuse_bfloat16("dtype");
  }
  return nb::module_::import_("numpy").attr("dtype")(as_str(typestr_of(buffer.type())));
}

// NumPy supports all versions and options of the protocol; its array is a view that keeps the buffer alive.
nb::object dlpack(nb::handle self, const nb::kwargs& options) {
  const nb::object numpy = nb::module_::import_("numpy");
  const CpuBuffer& buffer = buffer_in(self);
  if (buffer.type() != kBfloat16) {
    return numpy.attr("asarray")(self).attr("__dlpack__")(**options);
  }
  const nb::object bits = numpy.attr("ndarray")(as_tuple(buffer.shape()), "uint16", self);
  nb::object capsule = bits.attr("__dlpack__")(**options);
  relabel_as_bfloat16(capsule);
  return capsule;
}

nb::tuple as_tuple(const Rect& rect) { return nb::make_tuple(rect.top, rect.left, rect.height, rect.width); }

nb::object as_applied(const Plan& plan, int height, int width) {
  return nb::module_::import_("spdl.io._images._applied")
      .attr("AppliedTransform")("source_size"_a = nb::make_tuple(plan.source_height, plan.source_width),
                                "crop"_a = as_tuple(plan.crop),
                                "resized"_a = nb::make_tuple(plan.resized_height, plan.resized_width),
                                "window"_a = as_tuple(plan.window), "offset"_a = nb::make_tuple(plan.top, plan.left),
                                "flip"_a = plan.flip, "vertical_flip"_a = plan.vertical_flip,
                                "size"_a = nb::make_tuple(height, width));
}

bool asks(int flags, int wanted) noexcept { return (flags & wanted) == wanted; }

// Elements in C order are also in Fortran order if at most one side has several elements, or if there are no elements.
bool is_fortran_order(const CpuBuffer::Shape& shape) noexcept {
  const auto num_long = std::count_if(shape.begin(), shape.end(), [](Py_ssize_t side) { return side != 1; });
  return num_long <= 1 || std::find(shape.begin(), shape.end(), 0) != shape.end();
}

int refuse_buffer(Py_buffer* view, const char* why) noexcept {
  view->obj = nullptr;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  auto* buffer = nb::inst_ptr<CpuBuffer>(self);
  if (asks(flags, PyBUF_WRITABLE) && buffer->is_readonly()) {
    return refuse_buffer(view, "the buffer is read-only, as what it was unpickled from is");
  }
  if (asks(flags, PyBUF_F_CONTIGUOUS) && !is_fortran_order(buffer->shape())) {
    return refuse_buffer(view, "the buffer is in C order, and Fortran's was asked for");
  }
  view->buf = buffer->data();
  view->obj = Py_NewRef(self);
  view->len = buffer->num_bytes();
  view->itemsize = buffer->type().size;
  view->readonly = buffer->is_readonly() ? 1 : 0;
  // Without a shape it is a row of bytes, as with a memoryview.
  view->ndim = asks(flags, PyBUF_ND) ? static_cast<int>(buffer->shape().size()) : 1;
  view->format = asks(flags, PyBUF_FORMAT) ? const_cast<char*>(format_of(buffer->type())) : nullptr;
  view->shape = asks(flags, PyBUF_ND) ? const_cast<Py_ssize_t*>(buffer->shape().data()) : nullptr;
  view->strides = asks(flags, PyBUF_STRIDES) ? const_cast<Py_ssize_t*>(buffer->strides().data()) : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

int get_storage(PyObject* self, Py_buffer* view, int flags) noexcept {
  auto* storage = nb::inst_ptr<CpuStorage>(self);
  return PyBuffer_FillInfo(view, self, storage->memory.data(), storage->size, 0, flags);
}

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<CpuBuffer>(self)->traverse(visit, arg) : 0;
}

int clear(PyObject* self) noexcept {
  nb::inst_ptr<CpuBuffer>(self)->clear();
  return 0;
}

// From Python 3.12 on, the type has `__buffer__` automatically; a method of that name would replace the slot and call
// itself.
PyType_Slot kSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr},
};
PyType_Slot kStorageSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_storage)},
    {0, nullptr},
};

nb::object new_buffer(const nb::tuple& sides, const std::string& typestr, const nb::object& storage) {
  return make_buffer(shape_of(sides), parse_typestr(typestr), storage);
}

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

CpuBuffer::CpuBuffer(Shape shape, ElementType type, std::optional<Export> storage)
    : CpuBuffer(std::move(shape), type, Buffer()) {
  const std::size_t size = checked_num_bytes(shape_, type_);
  storage_ = std::move(storage);
  if (!storage_) {
    // An array without elements needs an address too.
    owned_.reserve(std::max<std::size_t>(size, 1));
  } else if (storage_->size() < size) {
    throw Error(
        ErrorKind::kConvert, "put the result in the storage",
        "the result has " + std::to_string(size) + " bytes and the storage has " + std::to_string(storage_->size()));
  }
}

CpuBuffer::CpuBuffer(Shape shape, ElementType type, Buffer memory)
    : failures(nb::make_tuple()),
      origins(nb::make_tuple()),
      excerpts(nb::make_tuple()),
      owned_(std::move(memory)),
      type_(type),
      shape_(std::move(shape)) {
  checked_num_bytes(shape_, type_);
  strides_.resize(shape_.size());
  // Unsigned, because an array without elements may have sides of any size besides the empty one.
  auto stride = static_cast<std::size_t>(type_.size);
  for (std::size_t i = shape_.size(); i-- > 0;) {
    strides_[i] = static_cast<Py_ssize_t>(stride);
    stride *= static_cast<std::size_t>(std::max<Py_ssize_t>(shape_[i], 1));
  }
}

Py_ssize_t CpuBuffer::num_bytes() const noexcept {
  Py_ssize_t bytes = type_.size;
  for (const Py_ssize_t side : shape_) {
    bytes *= side;
  }
  return bytes;
}

void CpuBuffer::keep_images(Py_ssize_t count) {
  shape_[0] = count;
  change_plans([count](Plans& plans) {
    if (static_cast<std::size_t>(count) < plans.of_images.size()) {
      plans.of_images.resize(static_cast<std::size_t>(count));
    }
  });
}

nb::object CpuBuffer::applied() {
  Plans plans;
  std::uint64_t num_changes = 0;
  {
    const std::lock_guard lock(plans_mutex_);
    num_changes = num_changes_;
    if (!applied_.is_valid() || applied_since_ != num_changes) {
      plans = plans_;
    } else {
      return applied_;
    }
  }
  nb::list items;
  for (const std::optional<Plan>& plan : plans.of_images) {
    items.append(plan ? as_applied(*plan, plans.canvas_height, plans.canvas_width) : nb::none());
  }
  const nb::object applied = nb::tuple(items);
  applied_ = applied;
  applied_since_ = num_changes;
  return applied;
}

int CpuBuffer::traverse(visitproc visit, void* arg) const noexcept {
  Py_VISIT(failures.ptr());
  Py_VISIT(origins.ptr());
  Py_VISIT(excerpts.ptr());
  Py_VISIT(applied_.ptr());
  Py_VISIT(storage_owner().ptr());
  return 0;
}

void CpuBuffer::clear() noexcept {
  failures.reset();
  origins.reset();
  excerpts.reset();
  applied_.reset();
}

nb::object make_buffer(CpuBuffer::Shape shape, ElementType type, const nb::object& storage) {
  std::optional<Export> memory;
  if (!storage.is_none()) {
    memory.emplace(storage, true, "storage");
  }
  return nb::cast(new CpuBuffer(std::move(shape), type, std::move(memory)), nb::rv_policy::take_ownership);
}

nb::object make_buffer(CpuBuffer::Shape shape, ElementType type, Buffer memory) {
  return nb::cast(new CpuBuffer(std::move(shape), type, std::move(memory)), nb::rv_policy::take_ownership);
}

ElementType parse_typestr(const std::string& typestr) {
  for (const ElementType type : {kUint8, kUint16, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64, kBfloat16}) {
    if ((type == kBfloat16 ? name_of(type) : typestr_of(type)) == typestr) {
      return type;
    }
  }
  throw nb::value_error(("typestr must be an integer or a floating point type of this machine, got " + typestr).c_str());
}

CpuBuffer::Shape shape_of(const nb::tuple& sides) {
  CpuBuffer::Shape shape;
  for (const nb::handle side : sides) {
    shape.push_back(nb::cast<Py_ssize_t>(side));
    if (shape.back() < 0) {
      throw nb::value_error("all sizes must be >= 0");
    }
  }
  return shape;
}

nb::object make_buffer_of(const nb::object& memory, CpuBuffer::Shape shape, ElementType type) {
  Export held(memory, false, "memory");
  const std::size_t size = checked_num_bytes(shape, type);
  if (held.size() != size) {
    throw Error(ErrorKind::kConvert, "restore a buffer from a pickle",
                "it has " + std::to_string(size) + " bytes and the memory that came with it has " +
                    std::to_string(held.size()));
  }
  return nb::cast(new CpuBuffer(std::move(shape), type, std::move(held)), nb::rv_policy::take_ownership);
}

CpuBuffer& buffer_in(nb::handle object) { return *nb::inst_ptr<CpuBuffer>(object); }

void register_memory(nb::module_& module) {
  nb::class_<CpuBuffer>(module, "CPUBuffer", nb::type_slots(kSlots), nb::is_weak_referenceable(), kBufferDoc)
      .def_prop_ro(
          "shape", [](const CpuBuffer& self) { return as_tuple(self.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Sizes, outermost first.")
      .def_prop_ro(
          "dtype", &dtype_of, nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"),
          "Type of the elements; AttributeError for bfloat16, which NumPy does not have.")
      .def_prop_ro("_is_bfloat16", [](const CpuBuffer& self) { return self.type() == kBfloat16; })
      .def_prop_ro(
          "failures", [](const CpuBuffer& self) { return self.failures; },
          nb::sig("def failures(self) -> tuple[spdl.io._types.LoadFailure, ...]"),
          "The sources that could not be loaded, in order of ``index``; empty if all were loaded.")
      .def_prop_ro(
          "origins", [](const CpuBuffer& self) { return self.origins; },
          nb::sig("def origins(self) -> tuple[int | None, ...]"), kOriginsDoc)
      .def_prop_ro(
          "excerpts", [](const CpuBuffer& self) { return self.excerpts; },
          nb::sig("def excerpts(self) -> tuple[spdl.io._types.Excerpt | None, ...]"), kExcerptsDoc)
      .def_prop_ro("applied", &CpuBuffer::applied, nb::lock_self(),
                   nb::sig("def applied(self) -> tuple[spdl.io._images._applied.AppliedTransform | None, ...]"),
                   kAppliedDoc)
      .def_prop_ro("__array_interface__", &array_interface,
                   nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"),
                   "Version 3 of NumPy's array interface; AttributeError for bfloat16.")
      .def("__dlpack__", &dlpack, nb::sig("def __dlpack__(self, **kwargs: typing.Any) -> typing.Any"))
      .def("__dlpack_device__", [](nb::handle) { return nb::make_tuple(1, 0); },  // kDLCPU
           nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__reduce_ex__", &reduce_buffer, "protocol"_a,
           nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> tuple[typing.Any, ...]"))
      .def("__repr__", [](const CpuBuffer& self) {
        const std::string shape = nb::cast<std::string>(nb::repr(as_tuple(self.shape())));
        return "CPUBuffer<shape=" + shape + ", dtype=" + name_of(self.type()) + ">";
      });
  nb::class_<CpuStorage>(module, "CPUStorage", nb::type_slots(kStorageSlots), nb::is_weak_referenceable(), kStorageDoc)
      .def(
          "__len__", [](const CpuStorage& self) { return self.size; }, "Size in bytes.")
      .def("__repr__", [](const CpuStorage& self) { return "CPUStorage<size=" + std::to_string(self.size) + ">"; });
  module.def(
      "new_storage", [](std::size_t size) { return new CpuStorage(size); }, "size"_a, nb::rv_policy::take_ownership,
      "An uninitialized block of that many bytes.");
  module.def(
      "set_origins", [](const nb::object& buffer, const nb::tuple& origins) { buffer_in(buffer).origins = origins; },
      "buffer"_a, "origins"_a, nb::sig("def set_origins(buffer: CPUBuffer, origins: tuple[int | None, ...]) -> None"),
      "Set ``origins`` of a batch.");
  module.def(
      "set_excerpts",
      [](const nb::object& buffer, const nb::tuple& excerpts) { buffer_in(buffer).excerpts = excerpts; }, "buffer"_a,
      "excerpts"_a,
      nb::sig("def set_excerpts(buffer: CPUBuffer, excerpts: tuple[spdl.io._types.Excerpt | None, ...]) -> None"),
      "Set ``excerpts`` of a batch.");
  module.def("new_buffer", &new_buffer, "shape"_a, "typestr"_a, "storage"_a.none(),
             nb::sig("def new_buffer(shape: tuple[int, ...], typestr: str, "
                     "storage: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any] | None) -> CPUBuffer"),
             kNewBufferDoc);
}

}  // namespace spdl::bind
