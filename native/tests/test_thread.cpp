#include "base/thread.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace spdl {

TEST_CASE("a fork waits until a thread has been started, and its child can start some") {
  std::atomic<bool> is_starting{false};
  std::atomic<bool> has_started{false};
  std::jthread starter([&] {
    const std::lock_guard held(fork_lock());
    is_starting = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    has_started = true;
  });
  while (!is_starting) {
  }
  const pid_t child = fork();
  if (child == 0) {
    start_thread([&] {
      if (!has_started) {
        _exit(1);
      }
    }).join();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace spdl
