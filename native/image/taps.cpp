#include "image/taps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace spdl {
namespace {

constexpr double kSupport = 2.0;
constexpr std::size_t kCacheSize = 32;

double cubic(double x) noexcept {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) {
    return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  }
  if (x < 2.0) {
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  }
  return 0.0;
}

}  // namespace

Taps make_taps(int size, double extent, int outputs) {
  const double scale = extent / outputs;
  const double widening = std::max(scale, 1.0);
  const double support = kSupport * widening;
  const auto begin_of = [&](double center) { return std::max(0, static_cast<int>(center - support + 0.5)); };
  const auto end_of = [&](double center) { return std::min(size, static_cast<int>(center + support + 0.5)); };

  int longest = 0;
  for (int i = 0; i < outputs; ++i) {
    const double center = (i + 0.5) * scale;
    longest = std::max(longest, end_of(center) - begin_of(center));
  }
  Taps taps;
  taps.num_taps = longest + longest % 2;
  taps.first.resize(static_cast<std::size_t>(outputs));
  taps.weights.assign(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(taps.num_taps), 0);

  std::vector<double> exact(static_cast<std::size_t>(longest));
  for (int i = 0; i < outputs; ++i) {
    const double center = (i + 0.5) * scale;
    const int begin = begin_of(center);
    const int count = end_of(center) - begin;
    double sum = 0;
    for (int k = 0; k < count; ++k) {
      exact[static_cast<std::size_t>(k)] = cubic((begin + k + 0.5 - center) / widening);
      sum += exact[static_cast<std::size_t>(k)];
    }
    // All outputs have num_taps taps; near the end they begin earlier, with zeros in front, to stay inside.
    const int first = std::max(0, std::min(begin, size - taps.num_taps));
    taps.first[static_cast<std::size_t>(i)] = first;
    // Rounding the running sum makes the total exact and never lets the error of many small weights add up.
    auto* weight = &taps.weights[static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.num_taps) +
                                 static_cast<std::size_t>(begin - first)];
    double running = 0;
    long before = 0;
    for (int k = 0; k < count; ++k) {
      running += exact[static_cast<std::size_t>(k)];
      const long after = std::lround(running / sum * (1 << kWeightBits));
      weight[k] = static_cast<std::int16_t>(after - before);
      before = after;
    }
  }
  return taps;
}

std::shared_ptr<const Taps> TapsCache::get(int size, double extent, int outputs) {
  for (const Entry& entry : entries_) {
    if (entry.size == size && entry.outputs == outputs && entry.extent == extent) {
      return entry.taps;
    }
  }
  Entry made{size, outputs, extent, std::make_shared<const Taps>(make_taps(size, extent, outputs))};
  auto taps = made.taps;
  if (entries_.size() < kCacheSize) {
    entries_.push_back(std::move(made));
  } else {
    entries_[next_] = std::move(made);
    next_ = (next_ + 1) % kCacheSize;
  }
  return taps;
}

}  // namespace spdl
