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

}  // namespace spdl
