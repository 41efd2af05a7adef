#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace spdl {
namespace {

constexpr const char* kAction = "open";

// The most that one system call reads, so that a large file can be interrupted.
constexpr std::size_t kMaxRead = std::size_t{4} << 20;

[[noreturn]] void fail(int code) {
  const bool missing = code == ENOENT || code == ENOTDIR;
  const auto kind = missing ? ErrorKind::kSourceNotFound : ErrorKind::kOpen;
  throw Error(kind, kAction, std::generic_category().message(code));
}

[[noreturn]] void refuse_large(std::size_t most) {
  throw Error(ErrorKind::kOpen, kAction,
              "it is larger than the " + std::to_string(most) + " bytes that a picture may have");
}

// Does not wait for the other end of a pipe, which may never be opened.
int open_now(const char* path) noexcept {
  int fd = -1;
  do {
    fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace

File::File(const std::string& path) : fd_(open_now(path.c_str())) {
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    const int code = errno;
    if (fd_ >= 0) {
      ::close(fd_);
    }
    fail(code);
  }
  if (S_ISDIR(status.st_mode)) {
    ::close(fd_);
    throw Error(ErrorKind::kOpen, kAction, "it is a folder, not a file");
  }
  if (S_ISCHR(status.st_mode)) {  // it may have no end, as /dev/zero
    ::close(fd_);
    throw Error(ErrorKind::kOpen, kAction, "it is a character device, not a file");
  }
  is_regular_ = S_ISREG(status.st_mode);
  first_size_ = status.st_size;
  is_seekable_ = is_regular_ || (S_ISBLK(status.st_mode) && ::lseek(fd_, 0, SEEK_CUR) == 0);
}

File::~File() { ::close(fd_); }

std::optional<std::uint64_t> File::size() const noexcept {
  struct stat status {};
  if (!is_regular_ || ::fstat(fd_, &status) != 0 || status.st_size < 0) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(status.st_size);
}

std::optional<std::uint64_t> File::size_at_first() const noexcept {
  return is_regular_ && first_size_ >= 0 ? std::optional(static_cast<std::uint64_t>(first_size_)) : std::nullopt;
}

std::span<const std::uint8_t> File::start(std::span<std::uint8_t> into) const noexcept {
  const ssize_t got = is_regular_ ? ::pread(fd_, into.data(), into.size(), 0) : 0;
  return into.first(got < 0 ? 0 : static_cast<std::size_t>(got));
}

std::int64_t File::read(std::uint8_t* into, std::size_t size, Watch& watch) noexcept {
  size = std::min(size, kMaxRead);
  while (true) {
    // A pipe nobody writes to yet would look like one that has ended; on Linux, poll tells the two apart.
    bool is_ready = is_regular_;
    if (!is_ready) {
      struct pollfd wanted {fd_, POLLIN, 0};
      const int count = ::poll(&wanted, 1, watch.patience());
      if (count < 0 && errno != EINTR) {
        return -errno;
      }
      is_ready = count > 0;
      if (!is_ready && watch.is_over(count < 0)) {
        return -ECANCELED;
      }
    }
    if (is_ready) {
      const ssize_t got = ::read(fd_, into, size);
      if (got >= 0) {
        return got;
      }
      if (errno != EINTR && errno != EAGAIN) {
        return -errno;
      }
      if (watch.is_over(errno == EINTR)) {
        return -ECANCELED;
      }
    }
  }
}

std::int64_t File::seek(std::int64_t offset, int whence) noexcept {
  const off_t position = ::lseek(fd_, offset, whence);
  return position < 0 ? -errno : position;
}

std::span<const std::uint8_t> read_file(const std::string& path, Buffer& into, std::optional<double> timeout,
                                        std::size_t most) {
  File file(path);
  Watch watch(timeout);
  // Pipes and devices say nothing about their size, and a file may change while it is read: the size is a first guess.
  const std::uint64_t declared = file.size_at_first().value_or(0);
  if (declared > most) {
    refuse_large(most);
  }
  // One byte more than there may be: room to see the end, or that there is more.
  const std::size_t largest = most + 1;
  into.reserve(std::min(declared > 0 ? static_cast<std::size_t>(declared) + 1 : std::size_t{1} << 16, largest));
  std::size_t room = std::min(into.capacity(), largest);
  std::size_t size = 0;
  while (true) {
    const std::int64_t got = file.read(into.data() + size, room - size, watch);
    if (got == -ECANCELED) {
      watch.throw_if_over(kAction);
    }
    if (got < 0) {
      fail(static_cast<int>(-got));
    }
    size += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) >= kMaxRead && watch.is_over()) {
      watch.throw_if_over(kAction);
    }
    if (size > most) {
      refuse_large(most);
    }
    // If the file had its declared size and the read returned less than the room, the file has ended: a second read
    // would only confirm it. Where the size is unknown, as in /proc or for a pipe, only a read tells.
    const bool has_all = size == declared && declared > 0 && size < room;
    if (got == 0 || has_all) {
      if (size == 0) {
        throw Error(ErrorKind::kOpen, kAction, "it is empty");
      }
      return {into.data(), size};
    }
    if (size == room) {
      Buffer larger(room > largest / 2 ? largest : 2 * room);
      std::memcpy(larger.data(), into.data(), size);
      into = std::move(larger);
      room = std::min(into.capacity(), largest);
    }
  }
}

std::span<const std::uint8_t> read_start(const std::string& path, std::span<std::uint8_t> into) noexcept {
  struct stat status {};
  // Opening a device may have effects.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  const int fd = open_now(path.c_str());
  if (fd < 0) {
    return {};
  }
  const ssize_t got = ::pread(fd, into.data(), into.size(), 0);
  ::close(fd);
  return into.first(got < 0 ? 0 : static_cast<std::size_t>(got));
}

std::uint64_t file_size(const std::string& path) noexcept {
  struct stat status {};
  const bool is_file = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  return is_file ? static_cast<std::uint64_t>(status.st_size) : 0;
}

void read_ahead(const std::string& path) noexcept {
#ifdef POSIX_FADV_WILLNEED
  // Pictures are seldom larger; the rest of a larger one is read ahead by the system while it is read.
  constexpr off_t kMost = off_t{4} << 20;
  // Opening a pipe or a device may have effects.
  if (file_size(path) == 0) {
    return;
  }
  const int fd = open_now(path.c_str());
  if (fd >= 0) {
    ::posix_fadvise(fd, 0, kMost, POSIX_FADV_WILLNEED);
    ::close(fd);
  }
#else
  static_cast<void>(path);
#endif
}

std::uint64_t disk_input_of_thread() noexcept {
#ifdef RUSAGE_THREAD
  struct rusage usage {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_inblock) : 0;
#else
  return 0;
#endif
}

bool looks_like_url(const std::string& path) noexcept {
  std::size_t length = 0;
  while (length < path.size() && (std::isalnum(static_cast<unsigned char>(path[length])) != 0 ||
                                  std::strchr("+-.", path[length]) != nullptr)) {
    ++length;
  }
  return length >= 2 && length < path.size() && path[length] == ':';  // one letter is a drive of Windows
}

}  // namespace spdl
