#include "shared/parking_lock.h"

#ifdef __linux__

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>

#include "base/spin.h"

namespace spdl {
namespace {

// Sleeps while `word` is `value`. Returns 0 or the error. No deadline: for ever.
int sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::optional<ParkingLock::Clock::time_point> deadline) noexcept {
  timespec limit{};
  if (deadline) {
    const auto left = std::max(std::chrono::nanoseconds{0},
                               std::chrono::nanoseconds(*deadline - ParkingLock::Clock::now()));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    limit.tv_sec = seconds.count();
    limit.tv_nsec = (left - seconds).count();
  }
  const long done = ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, deadline ? &limit : nullptr, nullptr, 0);
  return done < 0 ? errno : 0;
}

// Words whose sleepers this thread is to wake when it has released the lock that it holds. A few at a time: the engine
// wakes at most some threads at once, but when it stops.
struct Postponed {
  static constexpr std::size_t kMost = 16;

  std::size_t num_held = 0;  // the `PostponingLock`s that the thread holds
  std::size_t num = 0;
  std::array<std::atomic<std::uint32_t>*, kMost> words{};
};

thread_local Postponed postponed;

void wake_sleeper(std::atomic<std::uint32_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

ParkingLock::Outcome ParkingLock::wait(std::optional<Clock::time_point> deadline) noexcept {
  Waiter waiter;
  waiter.is_owed_from_ = Clock::now() + kPatience;
  for (bool was_woken = false; enqueue(waiter, was_woken); was_woken = true) {
    int error = 0;
    while (waiter.state_.load(std::memory_order_acquire) == Waiter::kAsleep) {
      error = sleep_while(waiter.state_, Waiter::kAsleep, deadline);
      if ((error == ETIMEDOUT || error == EINTR) && dequeue(waiter)) {
        // Nobody has woken it, so no wake-up is lost.
        return error == EINTR ? Outcome::kInterrupted : Outcome::kTimedOut;
      }
    }
    if (waiter.state_.load(std::memory_order_acquire) == Waiter::kOwner || try_lock()) {
      return Outcome::kTaken;
    }
    waiter.state_.store(Waiter::kAsleep, std::memory_order_relaxed);  // another thread was faster
  }
  return Outcome::kTaken;
}

// Takes the lock instead, and returns false, if it is free.
bool ParkingLock::enqueue(Waiter& waiter, bool was_woken) noexcept {
  const std::lock_guard held(mutex_);
  std::uint8_t word = word_.load(std::memory_order_relaxed);
  while (true) {
    const bool is_free = (word & kLocked) == 0;
    const std::uint8_t wanted = word | (is_free ? kLocked : kHasWaiters);
    if (word_.compare_exchange_weak(word, wanted, std::memory_order_acquire, std::memory_order_relaxed)) {
      if (is_free) {
        return false;
      }
      break;
    }
  }
  if (was_woken) {  // it was the first, and keeps its place
    waiter.next_ = first_;
    first_ = &waiter;
  } else {
    waiter.next_ = nullptr;
    (last_ == nullptr ? first_ : last_->next_) = &waiter;
  }
  if (waiter.next_ == nullptr) {
    last_ = &waiter;
  }
  return true;
}

// Returns false if it was woken before.
bool ParkingLock::dequeue(Waiter& waiter) noexcept {
  const std::lock_guard held(mutex_);
  Waiter* before = nullptr;
  for (Waiter* each = first_; each != nullptr; before = each, each = each->next_) {
    if (each == &waiter) {
      (before == nullptr ? first_ : before->next_) = waiter.next_;
      if (last_ == &waiter) {
        last_ = before;
      }
      if (first_ == nullptr) {
        word_.fetch_and(static_cast<std::uint8_t>(~kHasWaiters), std::memory_order_relaxed);
      }
      return true;
    }
  }
  return false;
}

bool ParkingLock::unlock() noexcept {
  std::uint8_t word = kLocked;
  if (word_.compare_exchange_strong(word, 0, std::memory_order_release, std::memory_order_relaxed)) {
    return true;
  }
  if ((word & kLocked) == 0) {
    return false;
  }
  unlock_and_wake();
  return true;
}

void ParkingLock::unlock_and_wake() noexcept {
  std::atomic<std::uint32_t>* word = nullptr;
  {
    const std::lock_guard held(mutex_);
    Waiter* const waiter = first_;
    const std::uint8_t rest = waiter != nullptr && waiter->next_ != nullptr ? kHasWaiters : 0;
    if (waiter == nullptr) {  // it has given up since
      word_.store(0, std::memory_order_release);
      return;
    }
    first_ = waiter->next_;
    if (first_ == nullptr) {
      last_ = nullptr;
    }
    const bool is_owed = Clock::now() >= waiter->is_owed_from_;
    word_.store(is_owed ? rest | kLocked : rest, std::memory_order_release);
    word = &waiter->state_;
    word->store(is_owed ? Waiter::kOwner : Waiter::kWoken, std::memory_order_release);
  }
  // The waiter may be gone already, with its stack: then this wakes nobody, or somebody who looks again.
  if (postponed.num_held != 0 && postponed.num < Postponed::kMost) {
    postponed.words[postponed.num++] = word;
  } else {
    wake_sleeper(word);
  }
}

bool PostponingLock::try_lock() noexcept {
  const bool is_taken = lock_.try_lock();
  postponed.num_held += is_taken ? 1 : 0;
  return is_taken;
}

ParkingLock::Outcome PostponingLock::wait(std::optional<ParkingLock::Clock::time_point> deadline) noexcept {
  if (has_processors()) {
    auto end = ParkingLock::Clock::now() + kSpin;
    if (deadline && *deadline < end) {
      end = *deadline;
    }
    do {
      for (int i = 0; i != 8; ++i) {
        relax();
      }
      if (try_lock()) {
        return Outcome::kTaken;
      }
    } while (ParkingLock::Clock::now() < end);
  }
  const ParkingLock::Outcome outcome = lock_.wait(deadline);
  postponed.num_held += outcome == ParkingLock::Outcome::kTaken ? 1 : 0;
  return outcome;
}

bool PostponingLock::unlock() noexcept {
  Postponed& mine = postponed;
  if (mine.num_held != 0 && --mine.num_held == 0 && mine.num != 0) {
    const bool was_locked = lock_.unlock();
    while (mine.num != 0) {
      wake_sleeper(mine.words[--mine.num]);
    }
    return was_locked;
  }
  return lock_.unlock();
}

}  // namespace spdl

#endif
