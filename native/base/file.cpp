#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace spdl {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(int code) {
  const bool missing = code == ENOENT || code == ENOTDIR;
  const auto kind = missing ? ErrorKind::kSourceNotFound : ErrorKind::kOpen;
  throw Error(kind, "open", std::generic_category().message(code));
}

}  // namespace

std::span<const std::uint8_t> read_file(const std::string& path, Buffer& into) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  const Descriptor file(fd);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    fail(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::kOpen, "open", "it is a folder, not a file");
  }
  // A pipe or device says nothing about its size; a file may still grow. So the size is a first guess.
  std::size_t room = status.st_size > 0 ? static_cast<std::size_t>(status.st_size) : std::size_t{1} << 16;
  std::size_t size = 0;
  if (room <= kMaxEncodedBytes) {
    into.reserve(room + 1);
    room = into.capacity();
  }
  while (room <= kMaxEncodedBytes + kAlignment) {
    const ssize_t got = ::read(fd, into.data() + size, room - size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail(errno);
    }
    size += static_cast<std::size_t>(got);
    if (got == 0) {
      if (size == 0) {
        throw Error(ErrorKind::kOpen, "open", "it is empty");
      }
      return {into.data(), size};
    }
    if (size == room) {
      Buffer larger(2 * room);
      std::memcpy(larger.data(), into.data(), size);
      into = std::move(larger);
      room = into.capacity();
    }
  }
  throw Error(ErrorKind::kOpen, "open",
              "it is larger than the " + std::to_string(kMaxEncodedBytes) + " bytes that a picture may have");
}

std::span<const std::uint8_t> read_start(const std::string& path, std::span<std::uint8_t> into) noexcept {
  struct stat status {};
  // Opening a pipe would wait for its other end.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = file.get() < 0 ? -1 : ::pread(file.get(), into.data(), into.size(), 0);
  return into.first(got < 0 ? 0 : static_cast<std::size_t>(got));
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
