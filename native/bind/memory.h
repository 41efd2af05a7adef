// Memory of Python objects for native code, and native memory for Python. Hold the GIL in all of these functions.

#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/element_type.h"
#include "bind/gil.h"
#include "image/transform.h"

namespace spdl::bind {

// Another object's memory, held by the buffer protocol: it can be neither freed nor resized while this lives.
class Export {
 public:
  // Raises TypeError for an object whose memory is not contiguous, or not writable if `writable`. `what` is the subject
  // of the message.
  Export(nanobind::handle object, bool writable, const char* what);
  ~Export() { release(); }
  Export(Export&& other) noexcept;
  Export& operator=(Export&& other) noexcept;

  std::uint8_t* data() const noexcept { return static_cast<std::uint8_t*>(view_.buf); }
  std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }
  bool is_readonly() const noexcept { return view_.readonly != 0; }
  // The object that owns the memory; for garbage collection.
  PyObject* exporter() const noexcept { return view_.obj; }
  bool is_byte_string() const noexcept { return view_.ndim == 1 && view_.itemsize == 1; }
  nanobind::handle owner() const noexcept { return view_.obj; }

 private:
  void release() noexcept;

  Py_buffer view_{};
};

// A Python object's memory that libav refers to. `drop_soon` releases it, on any thread.
class DeferredExport final : public Deferred {
 public:
  DeferredExport(nanobind::handle object, const char* what) : memory(object, false, what) {}

  const Export memory;
};

// The Python class CPUBuffer: an array in C order, in its own memory or in the user's storage, which it keeps alive.
//
// The class is registered by the extension _core; both extensions make instances of it.
class CpuBuffer {
 public:
  using Shape = std::vector<Py_ssize_t>;

  // Throws Error(kConvert) if the storage is smaller than the array.
  CpuBuffer(Shape shape, ElementType type, std::optional<Export> storage);
  // In memory that is already written and large enough.
  CpuBuffer(Shape shape, ElementType type, Buffer memory);

  std::uint8_t* data() noexcept { return storage_ ? storage_->data() : owned_.data(); }
  ElementType type() const noexcept { return type_; }
  // Whether the storage is read-only, which happens only after unpickling.
  bool is_readonly() const noexcept { return storage_ && storage_->is_readonly(); }
  const Shape& shape() const noexcept { return shape_; }
  const Shape& strides() const noexcept { return strides_; }  // in bytes
  Py_ssize_t num_bytes() const noexcept;
  nanobind::handle storage_owner() const noexcept { return storage_ ? storage_->owner() : nanobind::handle(); }
  // Shrinks a batch to its first `count` images.
  void keep_images(Py_ssize_t count);

  // The plan of each image, none for a missing one; and the size of the canvas that all are drawn on.
  struct Plans {
    std::vector<std::optional<Plan>> of_images;
    int canvas_height = 0;
    int canvas_width = 0;
  };
  // Several threads may load images into one batch, so this returns a copy, and `change(plans)`, which must not run
  // Python code, changes the plans.
  Plans plans() const {
    const std::lock_guard lock(plans_mutex_);
    return plans_;
  }
  template <class Change>
  void change_plans(Change&& change) {
    const std::lock_guard lock(plans_mutex_);
    change(plans_);
    ++num_changes_;
  }
  // The plans as a Python tuple, created on the first access after a change.
  nanobind::object applied();

  nanobind::object failures;  // tuple of LoadFailure
  nanobind::object origins;   // tuple of int or None
  nanobind::object excerpts;  // tuple of Excerpt or None

  // For garbage collection.
  int traverse(visitproc visit, void* arg) const noexcept;
  void clear() noexcept;

 private:
  Buffer owned_;
  std::optional<Export> storage_;
  ElementType type_;
  Shape shape_;
  Shape strides_;
  mutable std::mutex plans_mutex_;  // guards these two; never take the GIL while holding it
  Plans plans_;
  std::uint64_t num_changes_ = 0;
  // Guarded by the object's own lock where there is no GIL.
  nanobind::object applied_;         // null until first accessed
  std::uint64_t applied_since_ = 0;  // num_changes_ then
};

// A new CPUBuffer, whose elements are still to be written. `storage` may be None.
nanobind::object make_buffer(CpuBuffer::Shape shape, ElementType type, const nanobind::object& storage);
// The same for elements that are already in this memory.
nanobind::object make_buffer(CpuBuffer::Shape shape, ElementType type, Buffer memory);
// The same for elements that an object's memory already holds, exactly filling it. The memory may be read-only.
nanobind::object make_buffer_of(const nanobind::object& memory, CpuBuffer::Shape shape, ElementType type);
// The sizes in a tuple; raises ValueError for negative ones.
CpuBuffer::Shape shape_of(const nanobind::tuple& sides);
// The type for a string from `typestr_of` or, for bfloat16, `name_of`; raises ValueError for other strings.
ElementType parse_typestr(const std::string& typestr);
CpuBuffer& buffer_in(nanobind::handle object);

void register_memory(nanobind::module_& module);

}  // namespace spdl::bind
