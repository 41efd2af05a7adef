#include "media/source_io.h"

extern "C" {
#include <libavformat/avio.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "av/check.h"

namespace spdl {
namespace {

constexpr const char* kOpen = "open";

// What libav's own protocol for files reads at a time.
constexpr int kFileBuffer = 1 << 15;
// The header of a video of many hours.
constexpr std::size_t kMostKept = std::size_t{1} << 25;

// `file:` names a path, in libav's words.
std::string path_of(const std::string& path) {
  std::error_code ignored;
  return path.starts_with("file:") && !std::filesystem::exists(path, ignored) ? path.substr(5) : path;
}

}  // namespace

AVIOInterruptCB interrupt_by(Watch& watch) noexcept {
  return {[](void* opaque) { return static_cast<Watch*>(opaque)->is_over() ? 1 : 0; }, &watch};
}

bool is_url(const std::string& path) {
  // The one protocol of libav that has a comma where others have a colon.
  if (!looks_like_url(path) && !path.starts_with("subfile,")) {
    return false;
  }
  std::error_code ignored;
  return !path.starts_with("file:") && !std::filesystem::exists(path, ignored);
}

UrlPtr open_url(const std::string& url, Watch& watch, av::Dictionary& options, const std::string& name) {
  if (avio_find_protocol_name(url.c_str()) == nullptr) {
    throw Error(ErrorKind::kSourceNotFound, kOpen,
                "there is no such file, and FFmpeg has no protocol '" + url.substr(0, url.find(':')) + "'")
        .in(name);
  }
  const AVIOInterruptCB interrupt = interrupt_by(watch);
  AVIOContext* opened = nullptr;
  const int code = avio_open2(&opened, url.c_str(), AVIO_FLAG_READ, &interrupt, options.address());
  UrlPtr io(opened);
  watch.throw_if_over(kOpen, name);
  if (code < 0) {
    const bool is_missing = code == AVERROR(ENOENT) || code == AVERROR_HTTP_NOT_FOUND;
    throw av::make_error(is_missing ? ErrorKind::kSourceNotFound : ErrorKind::kOpen, code, kOpen, name);
  }
  return io;
}

SourceIo::SourceIo(std::span<const std::uint8_t> data, int buffer_size) : data_(data) { allocate(buffer_size, true); }

SourceIo::SourceIo(const std::string& path, const std::string& name, Watch& watch) : watch_(&watch) {
  try {
    file_.emplace(path_of(path));
  } catch (Error& error) {
    error.source = name;
    throw;
  }
  allocate(kFileBuffer, file_->is_seekable());
}

SourceIo::SourceIo(UrlPtr url) : url_(std::move(url)), io_(url_.get()) {}

SourceIo::SourceIo(std::shared_ptr<ByteRanges> ranges, Watch& watch)
    : ranges_(std::move(ranges)), is_keeping_(true), watch_(&watch) {
  allocate(kFileBuffer, true);
}

SourceIo::~SourceIo() {
  if (!url_) {
    av_freep(&io_->buffer);
    avio_context_free(&io_);
  }
}

void SourceIo::allocate(int buffer_size, bool is_seekable) {
  auto* buffer = static_cast<std::uint8_t*>(av_malloc(static_cast<std::size_t>(buffer_size)));
  io_ = buffer == nullptr
            ? nullptr
            : avio_alloc_context(buffer, buffer_size, 0, this, &read, nullptr, is_seekable ? &seek : nullptr);
  if (io_ == nullptr) {
    av_free(buffer);
    throw std::bad_alloc();
  }
}

std::span<const std::uint8_t> SourceIo::start(std::span<std::uint8_t> into) const {
  if (url_) {
    return {};
  }
  if (ranges_) {
    return into.first(ranges_->read(0, into, *watch_));
  }
  return file_ ? file_->start(into) : data_.first(std::min(data_.size(), into.size()));
}

int SourceIo::read(void* opaque, std::uint8_t* into, int size) noexcept {
  auto& self = *static_cast<SourceIo*>(opaque);
  const int count = self.read_some(into, size);
  if (count > 0) {
    try {
      const std::span<const std::uint8_t> bytes(into, static_cast<std::size_t>(count));
      self.check_.see(static_cast<std::int64_t>(self.position_), bytes);
      self.keep(bytes);
    } catch (...) {
      self.failure_ = std::current_exception();  // out of memory
      return AVERROR_EXIT;
    }
    self.position_ += static_cast<std::size_t>(count);
  }
  return count;
}

int SourceIo::read_some(std::uint8_t* into, int size) noexcept {
  if (file_) {
    const std::int64_t got = file_->read(into, static_cast<std::size_t>(size), *watch_);
    return got == -ECANCELED ? AVERROR_EXIT : got == 0 ? AVERROR_EOF : static_cast<int>(got);
  }
  if (ranges_) {
    return read_ranges({into, static_cast<std::size_t>(size)});
  }
  const std::size_t count = std::min(static_cast<std::size_t>(size), data_.size() - position_);
  if (count == 0) {
    return AVERROR_EOF;
  }
  std::memcpy(into, data_.data() + position_, count);
  return static_cast<int>(count);
}

int SourceIo::read_ranges(std::span<std::uint8_t> into) noexcept {
  if (failure_) {
    return AVERROR_EXIT;
  }
  try {
    const std::size_t count = ranges_->read(static_cast<std::int64_t>(position_), into, *watch_);
    return count == 0 ? AVERROR_EOF : static_cast<int>(count);
  } catch (...) {
    failure_ = std::current_exception();  // libav is C: nothing may be thrown through it
    return AVERROR_EXIT;
  }
}

void SourceIo::keep(std::span<const std::uint8_t> bytes) {
  is_keeping_ = is_keeping_ && bytes.size() <= kMostKept - num_kept_;
  if (!is_keeping_) {
    return;
  }
  num_kept_ += bytes.size();
  const auto at = static_cast<std::int64_t>(position_);
  auto before = kept_.upper_bound(at);
  if (before != kept_.begin()) {
    auto& [start, found] = *--before;
    if (start + static_cast<std::int64_t>(found.size()) == at) {
      found.insert(found.end(), bytes.begin(), bytes.end());
      return;
    }
  }
  kept_.try_emplace(at, bytes.begin(), bytes.end());
}

std::span<const std::uint8_t> SourceIo::kept(std::int64_t position, std::size_t size) const noexcept {
  auto next = kept_.upper_bound(position);
  if (next == kept_.begin()) {
    return {};
  }
  const auto& [start, found] = *std::prev(next);
  const auto offset = static_cast<std::size_t>(position - start);
  return offset <= found.size() && size <= found.size() - offset ? std::span(found).subspan(offset, size)
                                                                 : std::span<const std::uint8_t>();
}

void SourceIo::forget() noexcept {
  is_keeping_ = false;
  kept_.clear();
}

void SourceIo::throw_if_failed() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

std::int64_t SourceIo::size() const noexcept {
  return ranges_ ? ranges_->size() : static_cast<std::int64_t>(data_.size());
}

std::int64_t SourceIo::seek(void* opaque, std::int64_t offset, int whence) noexcept {
  auto& self = *static_cast<SourceIo*>(opaque);
  if (!self.file_) {
    return self.seek_within(offset, whence);
  }
  if ((whence & ~AVSEEK_FORCE) == AVSEEK_SIZE) {
    const auto size = self.file_->size();
    return size ? static_cast<std::int64_t>(*size) : AVERROR(ENOSYS);
  }
  const std::int64_t position = self.file_->seek(offset, whence & ~AVSEEK_FORCE);
  if (position >= 0) {
    self.position_ = static_cast<std::size_t>(position);
  }
  return position;
}

std::int64_t SourceIo::seek_within(std::int64_t offset, int whence) noexcept {
  switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE:
      return size();
    case SEEK_SET:
      break;
    case SEEK_CUR:
      offset += static_cast<std::int64_t>(position_);
      break;
    case SEEK_END:
      offset += size();
      break;
    default:
      return AVERROR(EINVAL);
  }
  if (offset < 0) {
    return AVERROR(EINVAL);
  }
  // As with a file, one may stand behind the end, and reads nothing there.
  position_ = static_cast<std::size_t>(std::min(offset, size()));
  return offset;
}

}  // namespace spdl
