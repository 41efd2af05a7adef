#include "shared/parking_lock.h"

#ifdef __linux__

#include <doctest/doctest.h>

#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace spdl {
namespace {

using Outcome = ParkingLock::Outcome;

template <typename Lock>
void take(Lock& lock) {
  if (!lock.try_lock()) {
    while (lock.wait(std::nullopt) != Outcome::kTaken) {
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("one thread at a time has the lock", Lock, ParkingLock, PostponingLock) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 2000;
  Lock lock;
  int counted = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < kTimes; ++j) {
          take(lock);
          ++counted;
          lock.unlock();
        }
      });
    }
  }
  CHECK(counted == kThreads * kTimes);
  CHECK(!lock.is_locked());
}

TEST_CASE("a postponing lock that is held for long is waited for in vain until the deadline") {
  PostponingLock lock;
  take(lock);
  std::jthread([&] {
    const auto now = ParkingLock::Clock::now();
    CHECK(lock.wait(now) == Outcome::kTimedOut);
    CHECK(lock.wait(now + 3 * PostponingLock::kSpin) == Outcome::kTimedOut);
    CHECK(ParkingLock::Clock::now() >= now + 3 * PostponingLock::kSpin);
  }).join();
  CHECK(lock.unlock());
  CHECK(!lock.is_locked());
}

TEST_CASE("a parking lock can be released by another thread, and only while it is taken") {
  ParkingLock lock;
  CHECK(lock.try_lock());
  CHECK(!lock.try_lock());
  std::jthread([&] { CHECK(lock.unlock()); }).join();
  CHECK(!lock.unlock());
}

TEST_CASE("who waits for a parking lock gives up at its deadline, and loses no wake-up of others") {
  ParkingLock lock;
  take(lock);
  CHECK(lock.wait(ParkingLock::Clock::now()) == Outcome::kTimedOut);
  std::latch has_taken(1);
  std::jthread waiter([&] {
    take(lock);
    has_taken.count_down();
  });
  CHECK(lock.wait(ParkingLock::Clock::now() + std::chrono::milliseconds(1)) == Outcome::kTimedOut);
  lock.unlock();
  has_taken.wait();
  CHECK(lock.is_locked());
}

TEST_CASE("waiters that give up at any moment leave a parking lock as it was") {
  constexpr int kTimes = 300;
  ParkingLock lock;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < kTimes; ++j) {
          const auto deadline = ParkingLock::Clock::now() + std::chrono::microseconds(j % 50);
          if (lock.try_lock() || lock.wait(deadline) == Outcome::kTaken) {
            std::this_thread::yield();
            lock.unlock();
          }
        }
      });
    }
  }
  CHECK(lock.try_lock());
  CHECK(lock.unlock());
}

}  // namespace spdl

#endif
