#include "shared/anonymous_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

namespace spdl {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

int open_unnamed() {
#ifdef __linux__
  const int fd = ::memfd_create("spdl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    fail("make shared memory");
  }
  return fd;
#else
  std::random_device random;
  while (true) {
    char name[32];  // macOS allows 31 characters
    std::snprintf(name, sizeof(name), "/spdl-%08x%08x", random(), random());
    const int fd = ::shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) {
      ::shm_unlink(name);
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      return fd;
    }
    if (errno != EEXIST) {
      fail("make shared memory");
    }
  }
#endif
}

}  // namespace

AnonymousFile::AnonymousFile(AnonymousFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

AnonymousFile& AnonymousFile::operator=(AnonymousFile&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

AnonymousFile AnonymousFile::create(std::size_t size) {
  AnonymousFile file(open_unnamed());
  if (::ftruncate(file.fd_, static_cast<off_t>(size)) != 0) {
    fail("size shared memory");
  }
#ifdef __linux__
  // A safeguard: a kernel that does not know seals goes without.
  (void)::fcntl(file.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
#endif
  return file;
}

AnonymousFile AnonymousFile::duplicate() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    fail("duplicate the descriptor of shared memory");
  }
  return AnonymousFile(fd);
}

int AnonymousFile::release() noexcept { return std::exchange(fd_, -1); }

std::size_t AnonymousFile::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    fail("ask for the size of shared memory");
  }
  return static_cast<std::size_t>(status.st_size);
}

void AnonymousFile::close() noexcept {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

int AnonymousFile::reserve(std::size_t offset, std::size_t size) const noexcept {
#ifdef __linux__
  while (::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
#else
  (void)offset;
  (void)size;
#endif
  return 0;
}

void AnonymousFile::give_back(std::size_t offset, std::size_t size) const noexcept {
#ifdef __linux__
  (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(size));
#else
  (void)offset;
  (void)size;
#endif
}

}  // namespace spdl
