// Memory of Python objects for the duration of a call.

#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "bind/gil.h"

namespace spdl::bind {

// Below this size, releasing the GIL and taking it again costs more than it gains other threads.
inline constexpr std::size_t kReleaseFrom = std::size_t{1} << 15;

inline std::size_t as_size(Py_ssize_t size) { return static_cast<std::size_t>(size); }

// Calls `work`, without the GIL if `is_long`.
template <class Work>
auto without_gil_if(bool is_long, Work&& work) {
  if (!is_long) {
    return work();
  }
  const GilReleased released;
  return work();
}

// Another object's memory, held for the duration of a call.
class BufferView {
 public:
  BufferView(nanobind::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
      throw nanobind::python_error();
    }
  }
  ~BufferView() {
    if (view_.obj != nullptr) {
      PyBuffer_Release(&view_);
    }
  }
  BufferView(BufferView&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}
  BufferView& operator=(BufferView&&) = delete;

  std::uint8_t* data() const noexcept { return static_cast<std::uint8_t*>(view_.buf); }
  std::size_t size() const noexcept { return as_size(view_.len); }

 private:
  Py_buffer view_{};
};

}  // namespace spdl::bind
