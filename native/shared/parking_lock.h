// A lock whose waiters sleep at once. Linux only.
//
// On Python without the GIL, a `threading.Lock` that is taken yields 40 times before it sleeps, also after it became
// free (3.13). Where there are more threads than cores, each yield gives the core away for a time slice, so a wake-up
// takes tens of milliseconds. Here a waiter makes one system call to sleep, and whoever wakes it one.
//
// Who releases the lock lets a waiter compete for it: whoever runs takes it first, which keeps cores busy. But a waiter
// that has slept for `kPatience` is given the lock, so that threads that take it all the time starve nobody.

#pragma once

#ifdef __linux__

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace spdl {

class ParkingLock {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::microseconds kPatience{100};

  // A thread that waits. Lives on its stack.
  class Waiter {
   private:
    friend class ParkingLock;
    enum State : std::uint32_t { kAsleep, kWoken, kOwner };
    std::atomic<std::uint32_t> state_ = kAsleep;  // the futex word
    Clock::time_point is_owed_from_;
    Waiter* next_ = nullptr;
  };

  ParkingLock() = default;
  ParkingLock(const ParkingLock&) = delete;
  ParkingLock& operator=(const ParkingLock&) = delete;

  bool try_lock() noexcept {
    std::uint8_t word = word_.load(std::memory_order_relaxed);
    while ((word & kLocked) == 0) {
      if (word_.compare_exchange_weak(word, word | kLocked, std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // Takes the lock, sleeping for as long as another has it.
  enum class Outcome { kTaken, kTimedOut, kInterrupted };  // interrupted: a signal came, the caller's to handle
  Outcome wait(std::optional<Clock::time_point> deadline) noexcept;

  // Returns whether it was locked. Any thread may call it.
  bool unlock() noexcept;
  bool is_locked() const noexcept { return (word_.load(std::memory_order_relaxed) & kLocked) != 0; }

 private:
  static constexpr std::uint8_t kLocked = 1;
  static constexpr std::uint8_t kHasWaiters = 2;  // changed under `mutex_` only

  bool enqueue(Waiter& waiter, bool was_woken) noexcept;
  bool dequeue(Waiter& waiter) noexcept;
  void unlock_and_wake() noexcept;

  std::atomic<std::uint8_t> word_ = 0;
  std::mutex mutex_;  // guards the queue; held for some instructions
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

// A lock that is held for microseconds, and that the same thread takes and releases. Two things save switches of threads:
// - Waiters spin for `kSpin` before they sleep. A no-op item of a pipeline took 34 us of wall time and 43 of CPU time
//   without spinning, 35 and 50 with 5 us, 18 and 30 with 10, 16 and 27 with 15 (CPython 3.13t, two cores).
// - Threads that its holder wakes by releasing a `ParkingLock` wake up when this lock is free: before, they would find it
//   taken, and sleep again.
class PostponingLock {
 public:
  using Outcome = ParkingLock::Outcome;

  static constexpr std::chrono::microseconds kSpin{10};

  bool try_lock() noexcept;
  Outcome wait(std::optional<ParkingLock::Clock::time_point> deadline) noexcept;
  bool unlock() noexcept;
  bool is_locked() const noexcept { return lock_.is_locked(); }

 private:
  ParkingLock lock_;
};

}  // namespace spdl

#endif
