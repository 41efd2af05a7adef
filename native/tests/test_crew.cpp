#include "base/crew.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace spdl {
namespace {

constexpr std::size_t kCount = 50;

std::uint64_t size_of(std::size_t i) { return i * 7 % 10; }

}  // namespace

TEST_CASE("each thread takes the largest items first, and equal ones in their order") {
  std::mutex lock;
  std::map<std::thread::id, std::vector<std::size_t>> taken;
  const auto errors = work_off(kCount, {.num_threads = 3, .size_of = &size_of}, [&](std::size_t i) {
    const std::lock_guard held(lock);
    taken[std::this_thread::get_id()].push_back(i);
    if (size_of(i) == 3) {
      throw Error(ErrorKind::kDecode, "decode", std::to_string(i));
    }
    return true;
  });
  std::vector<std::size_t> all;
  for (const auto& [thread, items] : taken) {
    for (std::size_t k = 1; k < items.size(); ++k) {
      const auto before = size_of(items[k - 1]);
      CHECK((before > size_of(items[k]) || (before == size_of(items[k]) && items[k - 1] < items[k])));
    }
    all.insert(all.end(), items.begin(), items.end());
  }
  CHECK(all.size() == kCount);
  CHECK(std::accumulate(all.begin(), all.end(), std::size_t{0}) == kCount * (kCount - 1) / 2);
  REQUIRE(errors);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK((*errors)[i].has_value() == (size_of(i) == 3));
    CHECK((!(*errors)[i] || (*errors)[i]->reason() == std::to_string(i)));
  }
}

TEST_CASE("items are announced once, before their turn, while something is read from a disk") {
  for (const int num_threads : {1, 3}) {
    std::mutex lock;
    std::vector<int> num_announced(kCount);
    std::uint64_t input = 0;
    const Crew crew{.num_threads = num_threads,
                    .announce =
                        [&](std::size_t i) {
                          const std::lock_guard held(lock);
                          ++num_announced[i];
                        },
                    .input_of_thread =
                        [&] {
                          const std::lock_guard held(lock);
                          return ++input;
                        }};
    std::size_t num_in_time = 0;
    REQUIRE(work_off(kCount, crew, [&](std::size_t i) {
      const std::lock_guard held(lock);
      num_in_time += static_cast<std::size_t>(num_announced[i]);
      return true;
    }));
    for (const int each : num_announced) {
      CHECK(each <= 1);
    }
    CHECK(num_announced[0] == 0);
    if (num_threads == 1) {
      CHECK(num_in_time == kCount - 1);
    }
  }
}

TEST_CASE("nothing is announced while all comes from memory") {
  int num_announced = 0;
  const Crew crew{.announce = [&](std::size_t) { ++num_announced; },
                  .input_of_thread = [] { return std::uint64_t{7}; }};
  REQUIRE(work_off(kCount, crew, [](std::size_t) { return true; }));
  CHECK(num_announced == 0);
}

TEST_CASE("one thread takes the items in their order and asks for no sizes") {
  std::vector<std::size_t> taken;
  int num_asked = 0;
  const auto ask = [&](std::size_t i) {
    ++num_asked;
    return size_of(i);
  };
  REQUIRE(work_off(kCount, {.num_threads = 1, .size_of = ask}, [&](std::size_t i) {
    taken.push_back(i);
    return true;
  }));
  std::vector<std::size_t> expected(kCount);
  std::iota(expected.begin(), expected.end(), std::size_t{0});
  CHECK(taken == expected);
  CHECK(num_asked == 0);
}

#ifdef RUSAGE_THREAD
TEST_CASE("sizes that have to be waited for are not asked for") {
  int num_asked = 0;
  const auto ask = [&](std::size_t i) {
    ++num_asked;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return size_of(i);
  };
  std::mutex lock;
  std::map<std::thread::id, std::vector<std::size_t>> taken;
  REQUIRE(work_off(kCount, {.num_threads = 2, .size_of = ask}, [&](std::size_t i) {
    const std::lock_guard held(lock);
    taken[std::this_thread::get_id()].push_back(i);
    return true;
  }));
  CHECK(num_asked < static_cast<int>(kCount));
  for (const auto& [thread, items] : taken) {
    CHECK(std::ranges::is_sorted(items));
  }
}
#endif

}  // namespace spdl
