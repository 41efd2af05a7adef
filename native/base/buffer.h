// Memory for pixels and encoded data: aligned, uninitialised, owned.
//
// A Buffer owns its bytes. `reserve` discards what was there: it is for scratch memory that is filled anew each time.
// One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

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

  // Makes room for `size` bytes, whose contents are undefined. Throws std::bad_alloc, and is then empty.
  std::uint8_t* reserve(std::size_t size) {
    if (size > capacity_) {
      release();
      const std::size_t wanted = round_up(size, kAlignment);
      if (wanted < size) {
        throw std::bad_alloc();
      }
      bytes_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, wanted)));
      if (!bytes_) {
        throw std::bad_alloc();
      }
      capacity_ = wanted;
    }
    return bytes_.get();
  }

  void release() noexcept {
    bytes_.reset();
    capacity_ = 0;
  }

  std::uint8_t* data() noexcept { return bytes_.get(); }
  const std::uint8_t* data() const noexcept { return bytes_.get(); }
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const noexcept { std::free(bytes); }
  };
  std::unique_ptr<std::uint8_t, Free> bytes_;
  std::size_t capacity_ = 0;
};

}  // namespace spdl
