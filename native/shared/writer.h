// Writes to a stream socket on a thread that needs neither Python nor the GIL.
//
// A process that makes small items by the hundred thousand cannot pay a system call for each, and one whose next item
// keeps the GIL for a second must not keep the one before for so long. So what is put is gathered for as long as
// `kGather` since the last write, and leaves then whatever Python does; what comes after a pause, or is urgent, leaves
// at once, on the thread that puts it as far as the socket takes it without waiting.
//
// Pending bytes are limited, for back-pressure: if the reader is slow or has stopped, `put` waits, instead of filling
// the memory of this process.
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
  // What has not been written is not.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Appends a copy of all pieces to what is to be written, in one piece with respect to other puts. Waits for other
  // puts, and while more than the limit is pending. Returns 0; EAGAIN in place of waiting for the latter, if it may not
  // wait; or errno of the write that failed: then nothing will be written any more. Throws std::bad_alloc, and has
  // appended nothing then.
  int put(std::span<const std::span<const std::byte>> pieces, bool is_urgent, bool may_wait);

  // Waits until all is written. False: it was not in time, or a write has failed.
  bool drain(std::chrono::duration<double> timeout);

  // Ends the thread as soon as it is not in a write. Idempotent, does not wait.
  void close() noexcept;

  // Bytes that were put and are not written.
  std::size_t num_bytes_pending() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace spdl
