// A half-open span of presentation time, [start, end), in seconds or in ticks.
//
// Pictures: a bound in seconds means the nearest tick of the stream. So k / 30 is the time of picture k at 30 frames per
// second, also where the container rounds that to milliseconds.
//
// Samples: a time stamp of n ticks of num/den seconds is inside if the double nearest to n * num / den is. A user who
// writes 0.4 or 1/3 means this double; the exact value of the literal 0.4 is a little more than 10/25.

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

// How far a double that a user computed may be from what they meant, relative to it: some units in the last place.
inline constexpr double kTimePrecision = 0x1p-50;

// A time in ticks of num/den seconds, as a fraction that is never a little less than what the user meant.
inline double fractional_ticks(double seconds, int num, int den) noexcept {
  constexpr double kMost = 1e15;  // whole numbers and their neighbours are exact
  const double ticks = seconds * den / num;
  return std::clamp(ticks + std::abs(ticks) * kTimePrecision, -kMost, kMost);
}

// The tick nearest to a time; of two, the later one. 0.3 is in the middle of two ticks of 0.04, though the double is less.
inline std::int64_t nearest_tick(double seconds, int num, int den) noexcept {
  return static_cast<std::int64_t>(std::floor(fractional_ticks(seconds, num, den) + 0.5));
}

struct TickWindow {
  std::int64_t start = 0;
  std::int64_t end = 0;

  // The window of pictures in a stream with that unit of time stamps. One that is shorter than a tick holds the tick that
  // is inside, if any: both of its bounds may be nearest to the same tick.
  static TickWindow of(const TimeWindow& window, int num, int den) noexcept {
    if (window.empty()) {
      return {};
    }
    const double start = fractional_ticks(window.start, num, den);
    const double end = fractional_ticks(window.end, num, den);
    if (end - start >= 1) {
      return {nearest_tick(window.start, num, den), nearest_tick(window.end, num, den)};
    }
    const auto first_from = [](double ticks) {
      return static_cast<std::int64_t>(std::ceil(ticks - 2 * std::abs(ticks) * kTimePrecision));
    };
    return {first_from(start), first_from(end)};
  }
  bool contains(std::int64_t ticks) const noexcept { return start <= ticks && ticks < end; }
  bool empty() const noexcept { return start >= end; }
};

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
