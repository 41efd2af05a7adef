// Writes to a stream socket on a thread that needs neither Python nor the GIL.
//
// A process that makes hundreds of thousands of small items cannot afford a system call for each. And if the next item
// holds the GIL for a second, the previous item must not wait that long. So puts are gathered until `kGather` after the
// last write, and are then written whatever Python does. A put after a pause, or an urgent one, is written at once, by
// the putting thread as far as the socket accepts it without blocking.
//
// Pending bytes are limited, for back-pressure: if the reader is slow or has stopped, `put` waits instead of filling
// this process's memory.
//
// All methods may be called from any thread. In a forked child, which does not have the thread, nothing is written.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace spdl {

class Writer {
 public:
  static constexpr std::size_t kNoLimit = SIZE_MAX;

  // Writes to a duplicate of `fd`. Throws std::system_error.
  Writer(int fd, std::size_t max_bytes_pending);
  // Bytes that are still pending are not written.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Appends a copy of all pieces to the pending bytes, without bytes of other puts in between. Waits for other puts,
  // and while more than the limit is pending. Returns 0; EAGAIN if more than the limit is pending and it may not wait;
  // or the errno of a failed write, after which nothing more is written. Throws std::bad_alloc; then nothing was
  // appended.
  int put(std::span<const std::span<const std::byte>> pieces, bool is_urgent, bool may_wait);

  // Waits until all is written. False after the timeout or if a write has failed.
  bool drain(std::chrono::duration<double> timeout);

  // Ends the thread as soon as it is not writing. Idempotent; does not wait.
  void close() noexcept;

  // Bytes that were put and not yet written.
  std::size_t num_bytes_pending() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace spdl
