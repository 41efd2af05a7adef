// A file without a name, in memory: what two processes share by passing its descriptor, and what is gone with the last
// of them, however they end.
//
// Linux: memfd, sealed against a change of its size, so that nobody can take mapped pages away. Elsewhere: a shared
// memory object whose name is removed before anybody can see it used.
//
// Owns its descriptor. One thread per object, but for `reserve` and `give_back`, which any may call.

#pragma once

#include <cstddef>

namespace spdl {

class AnonymousFile {
 public:
  AnonymousFile() = default;
  // Takes the descriptor over.
  explicit AnonymousFile(int fd) noexcept : fd_(fd) {}
  ~AnonymousFile() { close(); }
  AnonymousFile(AnonymousFile&& other) noexcept;
  AnonymousFile& operator=(AnonymousFile&& other) noexcept;

  // Of `size` bytes, none of which takes memory yet. Throws std::system_error.
  static AnonymousFile create(std::size_t size);
  // A second descriptor of the same file. Throws std::system_error.
  AnonymousFile duplicate() const;

  int fd() const noexcept { return fd_; }  // -1 when closed
  // The descriptor, which is the caller's from now on.
  int release() noexcept;
  std::size_t size() const;                // throws std::system_error
  void close() noexcept;

  // Gives the pages of a range memory now, so that a later write cannot fail: where there is none, a write to a mapping
  // ends the process (SIGBUS). The system's error number, 0 for success. Nothing to do where the system does it itself.
  int reserve(std::size_t offset, std::size_t size) const noexcept;
  // Takes their memory away; they read as zeros. Only advice: where the system cannot, they keep it.
  void give_back(std::size_t offset, std::size_t size) const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace spdl
