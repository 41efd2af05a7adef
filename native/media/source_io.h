// Where libav reads a container's bytes from: memory, a file, or a URL.
//
// Files are not left to libav: for it a name may be a URL, a pattern of names or a side door to other protocols, and a pipe
// that nobody writes to cannot be left. Owns what it opens; data in memory belongs to the caller and must outlive it.
// One thread per object.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "av/options.h"
#include "av/owners.h"
#include "base/file.h"
#include "base/watch.h"

namespace spdl {

struct CloseUrl {
  void operator()(AVIOContext* io) const noexcept { avio_closep(&io); }
};
using UrlPtr = std::unique_ptr<AVIOContext, CloseUrl>;

// What libav asks in everything that may block. The watch must outlive whatever has it.
AVIOInterruptCB interrupt_by(Watch& watch) noexcept;

// Whether a source that is given as text is a URL, and not the path of a file.
bool is_url(const std::string& path);

// Options that the protocol does not know stay in `options`. `name` is what messages say. Throws Error: kSourceNotFound,
// kOpen, kTimeout; Cancelled.
UrlPtr open_url(const std::string& url, Watch& watch, av::Dictionary& options, const std::string& name);

class SourceIo {
 public:
  // `buffer_size` in bytes, of libav's own. Both read by callbacks; the watch ends what blocks, and must outlive this.
  SourceIo(std::span<const std::uint8_t> data, int buffer_size);
  SourceIo(const std::string& path, const std::string& name, Watch& watch);
  explicit SourceIo(UrlPtr url);
  ~SourceIo();
  SourceIo(const SourceIo&) = delete;
  SourceIo& operator=(const SourceIo&) = delete;

  AVIOContext* context() const noexcept { return io_; }
  bool is_url() const noexcept { return url_ != nullptr; }
  // The first bytes, as many as there are and fit, where they can be read again; else none.
  std::span<const std::uint8_t> start(std::span<std::uint8_t> into) const;

 private:
  void allocate(int buffer_size, bool is_seekable);
  static int read(void* opaque, std::uint8_t* into, int size) noexcept;
  static std::int64_t seek(void* opaque, std::int64_t offset, int whence) noexcept;
  std::int64_t seek_in_memory(std::int64_t offset, int whence) noexcept;

  // One of three.
  std::span<const std::uint8_t> data_;
  std::optional<File> file_;
  UrlPtr url_;

  std::size_t position_ = 0;  // in memory
  Watch* watch_ = nullptr;
  AVIOContext* io_ = nullptr;  // owned unless it is the URL's
};

}  // namespace spdl
