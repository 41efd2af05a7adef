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

void take(ParkingLock& lock) {
  if (!lock.try_lock()) {
    while (lock.wait(std::nullopt) != Outcome::kTaken) {
    }
  }
}

}  // namespace

TEST_CASE("one thread at a time has a parking lock") {
  constexpr int kThreads = 4;
  constexpr int kTimes = 2000;
  ParkingLock lock;
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
