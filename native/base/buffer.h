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

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace spdl {

// A cache line, and the widest vector register.
inline constexpr std::size_t kAlignment = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

// From this size on (NumPy's) memory is asked for in large pages. The first write to fresh memory of 600 MB took 460 ms
// without them and 140 ms with them, of which the copying alone is the greater part.
inline constexpr std::size_t kLargePagesFrom = std::size_t{4} << 20;

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
      ask_for_large_pages();
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
  void ask_for_large_pages() noexcept {
#ifdef __linux__
    if (capacity_ >= kLargePagesFrom) {
      constexpr std::size_t kPage = 4096;
      const std::size_t skipped = kPage - reinterpret_cast<std::uintptr_t>(bytes_.get()) % kPage;
      // Advice: where it is refused (other page sizes, other settings), nothing is lost.
      (void)madvise(bytes_.get() + skipped, capacity_ - skipped, MADV_HUGEPAGE);
    }
#endif
  }

  struct Free {
    void operator()(std::uint8_t* bytes) const noexcept { std::free(bytes); }
  };
  std::unique_ptr<std::uint8_t, Free> bytes_;
  std::size_t capacity_ = 0;
};

}  // namespace spdl
