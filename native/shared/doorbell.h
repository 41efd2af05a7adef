// A wake-up between two processes: one rings, the other waits with a timeout. Linux: an eventfd; elsewhere a pipe.
//
// Its count has no meaning: a waiter checks the shared state after every ring, and before the first wait.
// Owns its descriptors. `ring` and `close` may run at the same time on two threads; only one thread at a time may wait.

#pragma once

#include <mutex>

namespace spdl {

class Doorbell {
 public:
  Doorbell() = default;  // one that cannot be rung
  // Takes over both descriptors, which may be the same.
  Doorbell(int read_fd, int write_fd) noexcept : read_fd_(read_fd), write_fd_(write_fd) {}
  ~Doorbell() { close_both(); }
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // Throws std::system_error.
  void open();
  // Opens with duplicates of the other's descriptors. Throws std::system_error.
  void open_as(const Doorbell& other);
  int read_fd() const noexcept { return read_fd_; }  // -1: none
  int write_fd() const noexcept { return write_fd_; }
  // Never blocks or fails: if it cannot ring, the waiter finds the doorbell closed.
  void ring() noexcept;
  enum class Outcome { kRung, kTimedOut, kInterrupted, kClosed };
  // Interrupted: a signal arrived, which the caller must handle.
  Outcome wait(double seconds) noexcept;
  void close() noexcept;

 private:
  void close_both() noexcept;

  std::mutex mutex_;  // so that a ring never writes to a closed descriptor, whose number may be reused by now
  int read_fd_ = -1;
  int write_fd_ = -1;
};

}  // namespace spdl
