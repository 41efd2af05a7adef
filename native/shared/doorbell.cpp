#include "shared/doorbell.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <utility>

#ifdef __linux__
#include <sys/eventfd.h>
#endif

namespace spdl {

void Doorbell::open() {
#ifdef __linux__
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    throw std::system_error(errno, std::generic_category(), "make an eventfd");
  }
  read_fd_ = write_fd_ = fd;
#else
  int ends[2];
  if (::pipe(ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "make a pipe");
  }
  for (const int fd : ends) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  read_fd_ = ends[0];
  write_fd_ = ends[1];
#endif
}

void Doorbell::open_as(const Doorbell& other) {
  constexpr auto duplicate = [](int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
      throw std::system_error(errno, std::generic_category(), "duplicate a descriptor");
    }
    return copy;
  };
  if (other.read_fd_ >= 0) {
    read_fd_ = duplicate(other.read_fd_);
    write_fd_ = other.write_fd_ == other.read_fd_ ? read_fd_ : duplicate(other.write_fd_);
  }
}

void Doorbell::ring() noexcept {
  const std::lock_guard lock(mutex_);
  if (write_fd_ >= 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(write_fd_, &one, sizeof(one));  // full: it rings already
  }
}

Doorbell::Outcome Doorbell::wait(double seconds) noexcept {
  int fd = -1;
  {
    const std::lock_guard lock(mutex_);
    fd = read_fd_;
  }
  if (fd < 0) {
    return Outcome::kClosed;
  }
  pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
  const int milliseconds = static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 1e6) * 1e3));
  const int ready = ::poll(&watched, 1, milliseconds);
  if (ready < 0) {
    return errno == EINTR ? Outcome::kInterrupted : Outcome::kClosed;
  }
  if (ready == 0) {
    return Outcome::kTimedOut;
  }
  const std::lock_guard lock(mutex_);
  if (read_fd_ < 0 || (watched.revents & POLLIN) == 0) {
    return Outcome::kClosed;
  }
  std::uint64_t rung[8];
  [[maybe_unused]] const ssize_t taken = ::read(read_fd_, rung, sizeof(rung));
  return Outcome::kRung;
}

void Doorbell::close() noexcept {
  const std::lock_guard lock(mutex_);
  close_both();
}

void Doorbell::close_both() noexcept {
  const int read_fd = std::exchange(read_fd_, -1);
  const int write_fd = std::exchange(write_fd_, -1);
  if (read_fd >= 0) {
    ::close(read_fd);
  }
  if (write_fd >= 0 && write_fd != read_fd) {
    ::close(write_fd);
  }
}

}  // namespace spdl
