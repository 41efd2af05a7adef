#include "base/time_window.h"

#include <doctest/doctest.h>

#include <limits>

namespace spdl {

TEST_CASE("a window holds its start and not its end") {
  const TimeWindow window{0.5, 1.5};
  CHECK(window.contains(0.5));
  CHECK(window.contains(1.4999999));
  CHECK_FALSE(window.contains(1.5));
  CHECK_FALSE(window.contains(0.4999999));
  CHECK_FALSE(window.empty());
}

TEST_CASE("reversed windows, and those of no length, are empty") {
  CHECK(TimeWindow{1, 1}.empty());
  CHECK(TimeWindow{2, 1}.empty());
  CHECK(TimeWindow{std::numeric_limits<double>::quiet_NaN(), 1}.empty());
}

TEST_CASE("a time stamp is the number that a user writes for it") {
  CHECK(to_seconds(10, 1, 25) == 0.4);
  CHECK(to_seconds(1, 1, 3) == 1.0 / 3);
  CHECK(to_seconds(90090, 1, 90000) == 1.001);
  CHECK(to_seconds(-3, 1001, 30000) == -3003.0 / 30000);
}

TEST_CASE("a time of a picture is the nearest tick, and of two the later one") {
  CHECK(nearest_tick(2.0 / 30, 1, 1000) == 67);
  CHECK(nearest_tick(0.0625, 1, 1000) == 63);
  CHECK(nearest_tick(-0.0625, 1, 1000) == -62);
  CHECK(nearest_tick(0.5, 1, 1) == 1);
  CHECK(nearest_tick(0.4999999, 1, 1) == 0);
  CHECK(nearest_tick(1.5 * 1001 / 30000, 1001, 30000) == 2);
  CHECK(nearest_tick(1e300, 1, 90000) == 1'000'000'000'000'000);
  CHECK(nearest_tick(-1e300, 1, 90000) == -1'000'000'000'000'000);
}

TEST_CASE("a double next to the middle of two ticks means the middle") {
  for (int i = 0; i < 1000; ++i) {
    CHECK(nearest_tick((2 * i + 1) / 2000.0, 1, 1000) == i + 1);
    CHECK(nearest_tick(to_seconds(i * 7919, 1, 90000), 1, 90000) == i * 7919);
  }
}

TEST_CASE("a window of ticks is half open") {
  const TickWindow window = TickWindow::of({1.0 / 30, 11.0 / 30}, 1, 1000);
  CHECK(window.contains(33));
  CHECK_FALSE(window.contains(367));
  CHECK(window.contains(366));
  CHECK(TickWindow::of({0.5, 0.5}, 1, 1000).empty());
  CHECK(TickWindow::of({0.5, 0.4}, 1, 1000).empty());
}

TEST_CASE("a window shorter than a tick holds the tick inside") {
  for (int i = 0; i < 1000; ++i) {
    const double time = i / 25.0;
    const TickWindow window = TickWindow::of({time, time + 1e-6}, 1, 25);
    CHECK(window.start == i);
    CHECK(window.end == i + 1);
    CHECK(TickWindow::of({time + 1e-6, time + 2e-6}, 1, 25).empty());
  }
}

}  // namespace spdl
