// Memory for pixels and encoded data: aligned, uninitialised, owned.
//
// A Buffer owns its bytes. `reserve` discards the contents: it is for scratch memory that is refilled each time. Large
// blocks come from LargeMemory and return there. One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/large_memory.h"

namespace spdl {

// A cache line, and the widest vector register.
inline constexpr std::size_t kAlignment = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { reserve(size); }

  // Makes room for `size` bytes with undefined contents. Throws std::bad_alloc; the buffer is then empty.
  std::uint8_t* reserve(std::size_t size) {
    if (size > capacity()) {
      release();
      const std::size_t wanted = round_up(size, kAlignment);
      if (wanted < size) {
        throw std::bad_alloc();
      }
      const LargeMemory::Block block =
          wanted >= kLargeFrom
              ? large_memory().take(wanted)
              : LargeMemory::Block{static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, wanted)), wanted};
      if (block.bytes == nullptr) {
        throw std::bad_alloc();
      }
      bytes_ = {block.bytes, Free(block.size)};
    }
    return bytes_.get();
  }

  void release() noexcept { bytes_.reset(); }

  std::uint8_t* data() noexcept { return bytes_.get(); }
  const std::uint8_t* data() const noexcept { return bytes_.get(); }
  std::size_t capacity() const noexcept { return bytes_ ? bytes_.get_deleter().size : 0; }

 private:
  struct Free {
    Free() noexcept : Free(0) {}
    explicit Free(std::size_t num_bytes) noexcept : size(num_bytes) {}

    void operator()(std::uint8_t* bytes) const noexcept {
      if (size >= kLargeFrom) {
        large_memory().give_back({bytes, size});
      } else {
        std::free(bytes);
      }
    }

    std::size_t size;
  };
  std::unique_ptr<std::uint8_t, Free> bytes_;
};

}  // namespace spdl
