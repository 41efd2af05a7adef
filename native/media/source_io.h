// The source of a container's bytes for libav: memory, a file, a URL, or a source that other code reads.
//
// libav does not open files itself, because it would take some names for URLs, patterns or protocols, and could not be
// interrupted while it reads a pipe. Owns what it opens; data in memory belongs to the caller and must outlive it. One
// thread per object.

#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "av/options.h"
#include "av/owners.h"
#include "base/file.h"
#include "base/watch.h"
#include "media/byte_ranges.h"
#include "media/matroska_check.h"

namespace spdl {

struct CloseUrl {
  void operator()(AVIOContext* io) const noexcept { avio_closep(&io); }
};
using UrlPtr = std::unique_ptr<AVIOContext, CloseUrl>;

// The callback by which libav checks the watch while it may block. The watch must outlive it.
AVIOInterruptCB interrupt_by(Watch& watch) noexcept;

// Whether the text is a URL, and not the path of a file.
bool is_url(const std::string& path);

// Options that the protocol does not know stay in `options`. Messages call the source `name`. Throws Error: kSourceNotFound,
// kOpen, kTimeout; Cancelled.
UrlPtr open_url(const std::string& url, Watch& watch, av::Dictionary& options, const std::string& name);

class SourceIo {
 public:
  // `buffer_size`: of libav's buffer, in bytes. The watch ends blocking reads, and must outlive this.
  SourceIo(std::span<const std::uint8_t> data, int buffer_size);
  SourceIo(const std::string& path, const std::string& name, Watch& watch);
  explicit SourceIo(UrlPtr url);
  SourceIo(std::shared_ptr<ByteRanges> ranges, Watch& watch);
  ~SourceIo();
  SourceIo(const SourceIo&) = delete;
  SourceIo& operator=(const SourceIo&) = delete;

  AVIOContext* context() const noexcept { return io_; }
  bool is_url() const noexcept { return url_ != nullptr; }
  // The first bytes, as many as fit, if they can be read again; else none. Throws as ByteRanges does.
  std::span<const std::uint8_t> start(std::span<std::uint8_t> into) const;
  // Of what was read; of a URL, nothing.
  const MatroskaCheck& matroska_check() const noexcept { return check_; }
  // Bytes that were read from ranges before `forget`, so they cost nothing; none if not all of them were.
  std::span<const std::uint8_t> kept(std::int64_t position, std::size_t size) const noexcept;
  void forget() noexcept;
  // Throws the error that ended a read in libav, which knows only that the read failed: Error; Cancelled. Nothing more
  // can be read.
  void throw_if_failed() const;

 private:
  void allocate(int buffer_size, bool is_seekable);
  static int read(void* opaque, std::uint8_t* into, int size) noexcept;
  int read_some(std::uint8_t* into, int size) noexcept;
  static std::int64_t seek(void* opaque, std::int64_t offset, int whence) noexcept;
  int read_ranges(std::span<std::uint8_t> into) noexcept;
  void keep(std::span<const std::uint8_t> bytes);
  std::int64_t size() const noexcept;
  // In memory and in ranges.
  std::int64_t seek_within(std::int64_t offset, int whence) noexcept;

  // Only one of these is set.
  std::span<const std::uint8_t> data_;
  std::optional<File> file_;
  UrlPtr url_;
  std::shared_ptr<ByteRanges> ranges_;

  std::size_t position_ = 0;
  bool is_keeping_ = false;
  std::size_t num_kept_ = 0;
  std::map<std::int64_t, std::vector<std::uint8_t>> kept_;  // by their places
  MatroskaCheck check_;
  std::exception_ptr failure_;
  Watch* watch_ = nullptr;
  AVIOContext* io_ = nullptr;  // owned, unless it is that of url_
};

}  // namespace spdl
