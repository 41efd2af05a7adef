// Python's memory in native hands, and ours in Python's. The GIL is held in all of it.

#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/buffer.h"

namespace spdl::bind {

// Another object's memory, held by the buffer protocol: while this lives, it can be neither freed nor resized.
class Export {
 public:
  // Raises TypeError, with `what` as the subject of the sentence, for an object whose memory is not contiguous, or not
  // writable where that is asked.
  Export(nanobind::handle object, bool writable, const char* what);
  ~Export() { release(); }
  Export(Export&& other) noexcept;
  Export& operator=(Export&& other) noexcept;

  std::uint8_t* data() const noexcept { return static_cast<std::uint8_t*>(view_.buf); }
  std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }
  bool is_byte_string() const noexcept { return view_.ndim == 1 && view_.itemsize == 1; }

 private:
  void release() noexcept;

  Py_buffer view_{};
};

// What Python knows as CPUBuffer: an array of uint8 in memory of ours or in storage of the user's, which it keeps.
class CpuBuffer {
 public:
  // Images: (num_images, height, width, channels).
  using Shape = std::array<Py_ssize_t, 4>;

  // Throws Error(kConvert) if the storage is smaller than the shape.
  CpuBuffer(const Shape& shape, std::optional<Export> storage);

  std::uint8_t* data() noexcept { return storage_ ? storage_->data() : owned_.data(); }
  const Shape& shape() const noexcept { return shape_; }
  const Shape& strides() const noexcept { return strides_; }
  Py_ssize_t num_bytes() const noexcept;
  // Fewer images than there was room for.
  void keep_images(Py_ssize_t count) noexcept { shape_[0] = count; }

  nanobind::object failures;  // tuple of LoadFailure

 private:
  Buffer owned_;
  std::optional<Export> storage_;
  Shape shape_;
  Shape strides_;
};

void register_memory(nanobind::module_& module);

}  // namespace spdl::bind
