// An in-memory file without a name. Two processes share it by passing its descriptor; it disappears with the last of
// them, however they end.
//
// Linux: memfd, with its size sealed, so that no process can remove mapped pages. Elsewhere: a shared memory object
// whose name is removed before it is used.
//
// Owns its descriptor. One thread per object, except that any thread may call `reserve` and `give_back`.

#pragma once

#include <cstddef>

namespace spdl {

class AnonymousFile {
 public:
  AnonymousFile() = default;
  // Takes over the descriptor.
  explicit AnonymousFile(int fd) noexcept : fd_(fd) {}
  ~AnonymousFile() { close(); }
  AnonymousFile(AnonymousFile&& other) noexcept;
  AnonymousFile& operator=(AnonymousFile&& other) noexcept;

  // A file of `size` bytes, which takes no memory yet. Throws std::system_error.
  static AnonymousFile create(std::size_t size);
  // A second descriptor of the same file. Throws std::system_error.
  AnonymousFile duplicate() const;

  int fd() const noexcept { return fd_; }  // -1 when closed
  // Returns the descriptor, which the caller now owns.
  int release() noexcept;
  std::size_t size() const;                // throws std::system_error
  void close() noexcept;

  // Allocates the memory of a range now, so that a later write cannot fail: if the system has no memory, a write to a
  // mapping ends the process (SIGBUS). Returns 0 or the system's error number. Does nothing where the system does this
  // itself.
  int reserve(std::size_t offset, std::size_t size) const noexcept;
  // Frees the memory of a range, which then reads as zeros. Best effort: where the system cannot, the memory stays.
  void give_back(std::size_t offset, std::size_t size) const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace spdl
