// Memory that libav writes to as if it were a file, including seeking.
//
// Owns the bytes and the AVIOContext, and does not move: libav holds its address. (avio_open_dyn_buf would overwrite 64
// bytes where a muxer has gone back to its header.) One thread per object.

#pragma once

extern "C" {
#include <libavformat/avio.h>
}

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace spdl::av {

class MemoryOutput {
 public:
  MemoryOutput();
  MemoryOutput(const MemoryOutput&) = delete;
  MemoryOutput& operator=(const MemoryOutput&) = delete;

  AVIOContext* context() const noexcept { return context_.get(); }

  // All bytes written. First flushes libav's buffer; throws std::bad_alloc if that fails.
  std::vector<std::uint8_t> take();

 private:
  struct Close {
    void operator()(AVIOContext* context) const noexcept;
  };

  template <class Byte>  // const from FFmpeg 7 on
  static int write(void* self, Byte* bytes, int size) noexcept;
  static std::int64_t seek(void* self, std::int64_t offset, int whence) noexcept;

  std::vector<std::uint8_t> bytes_;
  std::size_t position_ = 0;
  std::unique_ptr<AVIOContext, Close> context_;
};

}  // namespace spdl::av
