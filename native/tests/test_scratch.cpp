#include "base/scratch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace spdl {

TEST_CASE("what one user gave back the next one gets") {
  struct Object {
    int value = 0;
  };
  {
    Scratch<Object> scratch;
    scratch->value = 7;
  }
  Scratch<Object> again;
  CHECK(again->value == 7);
  Scratch<Object> another;
  CHECK(another->value == 0);
}

TEST_CASE("no object has two users at once") {
  struct Object {
    std::atomic<int> users{0};
  };
  std::atomic<bool> is_shared{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Scratch<Object> scratch;
        if (scratch->users.fetch_add(1) != 0) {
          is_shared = true;
        }
        scratch->users.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK_FALSE(is_shared.load());
}

}  // namespace spdl
