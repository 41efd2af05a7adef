// A half-open span of presentation time, [start, end), in seconds.
//
// A time stamp of n ticks of num/den seconds is inside if the double nearest to n * num / den is. A user who writes 0.4
// or 1/3 means this double; the exact value of the literal 0.4 is a little more than 10/25.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace spdl {

struct TimeWindow {
  double start = 0;
  double end = 0;

  bool contains(double seconds) const noexcept { return start <= seconds && seconds < end; }
  bool empty() const noexcept { return !(start < end); }
};

// Correctly rounded while ticks * num stays below 2^53.
inline double to_seconds(std::int64_t ticks, int num, int den) noexcept {
  return static_cast<double>(ticks) * num / den;
}

// The smallest whole k such that k / rate is not before that time.
inline std::int64_t first_sample_from(double seconds, int rate) noexcept {
  constexpr double kMost = 1e15;  // whole numbers and their neighbours are exact
  auto sample = static_cast<std::int64_t>(std::ceil(std::clamp(seconds * rate, -kMost, kMost)));
  while (to_seconds(sample - 1, 1, rate) >= seconds && sample > -static_cast<std::int64_t>(kMost)) {
    --sample;
  }
  while (to_seconds(sample, 1, rate) < seconds && sample < static_cast<std::int64_t>(kMost)) {
    ++sample;
  }
  return sample;
}

}  // namespace spdl
