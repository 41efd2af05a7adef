// Compiled with -O3 for its loops over kLanes outputs, and without fused multiplication and addition
// (-ffp-contract=off), so that weights are the same on every machine.

#include "image/filter_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <type_traits>

namespace spdl {
namespace {

// Outputs whose weights are made side by side.
constexpr int kLanes = 32;

double support_of(Interpolation interpolation) noexcept {
  switch (interpolation) {
    case Interpolation::kBox:
      return 0.5;
    case Interpolation::kBilinear:
      return 1.0;
    case Interpolation::kBicubic:
      return 2.0;
    case Interpolation::kLanczos:
      return 3.0;
    case Interpolation::kNearest:
      break;
  }
  return 0.0;
}

// Where outputs lie among samples, in Pillow's arithmetic (precompute_coeffs), which decides ties. `output` counts from
// the first of the whole grid; samples from axis.offset.
struct Grid {
  explicit Grid(const Axis& axis) noexcept
      : begin(axis.begin), scale(axis.extent / axis.resized), widening(std::max(scale, 1.0)),
        support(support_of(axis.interpolation) * widening), size(axis.size) {}

  double center(int output) const noexcept { return begin + (output + 0.5) * scale; }
  int window_begin(double center) const noexcept { return std::max(0, static_cast<int>(center - support + 0.5)); }
  int window_end(double center) const noexcept { return std::min(size, static_cast<int>(center + support + 0.5)); }

  double begin;
  double scale;
  double widening;
  double support;
  int size;
};

// Samples that weights are made for, counted from axis.offset.
Span span_of(const Axis& axis) noexcept {
  const Grid grid(axis);
  const double first = grid.center(axis.first);
  const double last = grid.center(axis.first + axis.count - 1);
  Span span;
  if (axis.interpolation == Interpolation::kNearest) {
    // Its positions are added up, and may err by a little to either side.
    span = {static_cast<int>(first - 0.5), static_cast<int>(last + 0.5) + 1};
  } else {
    span = {grid.window_begin(first), grid.window_end(last)};
  }
  span.begin = std::clamp(span.begin, 0, axis.size - 1);
  span.end = std::clamp(span.end, span.begin + 1, axis.size);
  return span;
}

int output_of(const Axis& axis, int slot) noexcept {
  return axis.first + (axis.is_reversed ? axis.count - 1 - slot : slot);
}

// Sets all but the weights.
void place(const Axis& axis, Span span, int num_taps, FilterPositions& into) {
  into.num_taps = num_taps + num_taps % 2;
  into.span = {axis.offset + span.begin, axis.offset + span.end};
  into.first.resize(static_cast<std::size_t>(axis.count));
}

std::size_t num_weights(const FilterPositions& positions) noexcept {
  return positions.first.size() * static_cast<std::size_t>(positions.num_taps);
}

// All outputs have num_taps taps; near the end they begin earlier, with zeros in front, to stay inside.
int first_of(int window_begin, Span span, int num_taps) noexcept {
  return std::max(span.begin, std::min(window_begin, span.end - num_taps));
}

// Pillow's ImagingScaleAffine: the position is added up from output to output.
void make_nearest(const Axis& axis, Span span, FilterPositions& into) {
  place(axis, span, 1, into);
  const double step = axis.extent / axis.resized;
  // Pillow adds up from the first output (ImagingScaleAffine), so we do; but not through a grid of which a picture
  // could never be made.
  constexpr int kMostAdded = 1 << 20;
  const int start = axis.first > kMostAdded ? axis.first : 0;
  double position = axis.begin + step * (start + 0.5);
  for (int output = start; output < axis.first + axis.count; ++output) {
    if (output >= axis.first) {
      const int slot = axis.is_reversed ? axis.count - 1 - (output - axis.first) : output - axis.first;
      const int sample = std::clamp(static_cast<int>(position), span.begin, span.end - 1);
      into.first[static_cast<std::size_t>(slot)] = sample - span.begin;
    }
    position += step;
  }
}

double sinc(double x) noexcept {
  if (x == 0.0) {
    return 1.0;
  }
  x = x * std::numbers::pi;
  return std::sin(x) / x;
}

// The filters as Pillow computes them.
struct ExactBox {
  double operator()(double x) const noexcept { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }
};
struct ExactBilinear {
  double operator()(double x) const noexcept {
    x = std::abs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
  }
};
struct ExactBicubic {
  double operator()(double x) const noexcept {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1.0) {
      return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    }
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
  }
};
struct ExactLanczos {
  double operator()(double x) const noexcept { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }
};

// The same in single precision, enough for 14 bits, and without branches; zero from the support on. The box has no
// weights but its window, which is found in double precision.
struct Box {
  float operator()(float) const noexcept { return 1.0F; }
};
struct Bilinear {
  float operator()(float x) const noexcept { return std::max(0.0F, 1.0F - std::abs(x)); }
};
struct Bicubic {
  float operator()(float x) const noexcept {
    x = std::min(std::abs(x), 2.0F);
    const float near = (1.5F * x - 2.5F) * x * x + 1.0F;
    const float far = ((-0.5F * x + 2.5F) * x - 4.0F) * x + 2.0F;
    return x < 1.0F ? near : far;
  }
};

// Between table entries the filter is a straight line to 2^-20.
class Lanczos {
 public:
  Lanczos() : table_(table().data()) {}

  float operator()(float x) const noexcept {
    const float position = std::min(std::abs(x), 3.0F) * kSteps;
    const int index = static_cast<int>(position);
    const float* entry = table_ + index;
    return entry[0] + (entry[1] - entry[0]) * (position - static_cast<float>(index));
  }

 private:
  static constexpr int kSteps = 1024;
  using Table = std::array<float, 3 * kSteps + 2>;

  static const Table& table() {
    static const Table made = [] {
      Table values{};
      for (int i = 0; i < 3 * kSteps; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<float>(ExactLanczos()(static_cast<double>(i) / kSteps));
      }
      return values;
    }();
    return made;
  }

  const float* table_;
};

// Makes the weights of kLanes outputs side by side. Rounding the running sum makes the total exact, and never lets the
// error of many small weights add up.
template <class Filter>
void make_lanes(const Filter& filter, const float* nearest, const std::int32_t* lowest, const std::int32_t* highest,
                float step, int num_taps, float* sums, std::int16_t* weights) noexcept {
  float total[kLanes] = {};
  for (int k = 0; k < num_taps; ++k) {
    const float distance = static_cast<float>(k) * step;
    float* running = sums + k * kLanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      const float weight = filter(nearest[lane] + distance);
      const float counts = (lowest[lane] <= k) & (k < highest[lane]) ? 1.0F : 0.0F;
      total[lane] += weight * counts;
      running[lane] = total[lane];
    }
  }
  float norm[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    // A window without weight is its first sample. Centres among the samples have at least 0.49, so this is for extents
    // that reach far beyond them.
    if (!(total[lane] > 0.25F)) {
      total[lane] = 1.0F;
      for (int k = lowest[lane]; k < num_taps; ++k) {
        sums[k * kLanes + lane] = 1.0F;
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    norm[lane] = static_cast<float>(1 << kWeightBits) / total[lane];
  }
  // Negative sums must round as positive ones do, and conversion rounds to zero.
  constexpr int kShift = 1 << 15;
  std::int32_t before[kLanes];
  std::fill_n(before, kLanes, kShift);
  for (int k = 0; k < num_taps; ++k) {
    const float* running = sums + k * kLanes;
    std::int32_t made[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto after = static_cast<std::int32_t>(running[lane] * norm[lane] + (static_cast<float>(kShift) + 0.5F));
      made[lane] = after - before[lane];
      before[lane] = after;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      weights[lane * num_taps + k] = static_cast<std::int16_t>(made[lane]);
    }
  }
}

template <class Filter>
void make_filtered(const Filter& filter, const Axis& axis, Span span, FilterWeights& into) {
  const Grid grid(axis);
  // Windows are as long as twice the support, rounded either way.
  place(axis, span, std::min(span.size(), static_cast<int>(std::ceil(2 * grid.support))), into);
  const int num_taps = into.num_taps;
  const double inverse = 1.0 / grid.widening;
  // Room for the last lanes, which may be more than there are outputs.
  into.weights.resize(num_weights(into) + static_cast<std::size_t>(kLanes * num_taps));
  into.sums.resize(static_cast<std::size_t>(kLanes * num_taps));
  const int direction = axis.is_reversed ? -1 : 1;
  int output = output_of(axis, 0);
  for (int begin = 0; begin < axis.count; begin += kLanes) {
    double centers[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      centers[lane] = grid.center(output + lane * direction);
    }
    output += kLanes * direction;
    std::int32_t lowest[kLanes];
    std::int32_t highest[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      lowest[lane] = static_cast<int>(centers[lane] - grid.support + 0.5);
      highest[lane] = static_cast<int>(centers[lane] + grid.support + 0.5);
    }
    if constexpr (std::is_same_v<Filter, Box>) {
      const ExactBox box;
      for (int lane = 0; lane < kLanes; ++lane) {
        lowest[lane] += box((lowest[lane] - centers[lane] + 0.5) * inverse) == 0.0 ? 1 : 0;
        highest[lane] -= box((highest[lane] - 1 - centers[lane] + 0.5) * inverse) == 0.0 ? 1 : 0;
      }
    }
    std::int32_t firsts[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      // At least one sample: rounding could leave a box none.
      const int low = std::min(std::max(lowest[lane], span.begin), span.end - 1);
      const int high = std::min(std::max(highest[lane], low + 1), span.end);
      const int first = first_of(low, span, num_taps);
      lowest[lane] = low - first;
      highest[lane] = high - first;
      firsts[lane] = first - span.begin;
    }
    float nearest[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      nearest[lane] = static_cast<float>((firsts[lane] + span.begin + 0.5 - centers[lane]) * inverse);
    }
    make_lanes(filter, nearest, lowest, highest, static_cast<float>(inverse), num_taps, into.sums.data(),
               into.weights.data() + static_cast<std::size_t>(begin) * static_cast<std::size_t>(num_taps));
    std::copy_n(firsts, std::min(kLanes, axis.count - begin), into.first.data() + begin);
  }
}

template <class Filter>
void make_filtered(const Filter& filter, const Axis& axis, Span span, ExactFilterWeights& into) {
  const Grid grid(axis);
  int longest = 1;
  for (int output = axis.first; output < axis.first + axis.count; ++output) {
    const double center = grid.center(output);
    longest = std::max(longest, grid.window_end(center) - grid.window_begin(center));
  }
  place(axis, span, longest, into);
  into.high.assign(num_weights(into), 0);
  into.low.assign(num_weights(into), 0);
  into.row.resize(static_cast<std::size_t>(longest));
  const double inverse = 1.0 / grid.widening;
  for (int slot = 0; slot < axis.count; ++slot) {
    const double center = grid.center(output_of(axis, slot));
    const int begin = grid.window_begin(center);
    const int count = grid.window_end(center) - begin;
    double sum = 0;
    for (int k = 0; k < count; ++k) {
      const double weight = filter((k + begin - center + 0.5) * inverse);
      into.row[static_cast<std::size_t>(k)] = weight;
      sum += weight;
    }
    const int first = first_of(begin, span, into.num_taps);
    into.first[static_cast<std::size_t>(slot)] = first - span.begin;
    const auto row = static_cast<std::size_t>(slot) * static_cast<std::size_t>(into.num_taps);
    for (int k = 0; k < count; ++k) {
      const double exact = into.row[static_cast<std::size_t>(k)];
      const double scaled = (sum != 0.0 ? exact / sum : exact) * (1 << kExactWeightBits);
      const int weight = static_cast<int>(scaled + (scaled < 0 ? -0.5 : 0.5));
      const auto at = row + static_cast<std::size_t>(begin - first + k);
      into.high[at] = static_cast<std::int16_t>(weight >> kLowBits);
      into.low[at] = static_cast<std::int16_t>(weight & ((1 << kLowBits) - 1));
    }
  }
}

}  // namespace

Span used_samples(const Axis& axis) noexcept {
  if (axis.is_identity()) {
    return {axis.offset + axis.first, axis.offset + axis.first + axis.count};
  }
  const Span span = span_of(axis);
  return {axis.offset + span.begin, axis.offset + span.end};
}

void make_weights(const Axis& axis, FilterWeights& into) {
  const Span span = span_of(axis);
  switch (axis.interpolation) {
    case Interpolation::kNearest:
      make_nearest(axis, span, into);
      into.weights.assign(num_weights(into), 0);
      for (std::size_t i = 0; i < into.weights.size(); i += 2) {
        into.weights[i] = 1 << kWeightBits;
      }
      break;
    case Interpolation::kBox:
      return make_filtered(Box(), axis, span, into);
    case Interpolation::kBilinear:
      return make_filtered(Bilinear(), axis, span, into);
    case Interpolation::kBicubic:
      return make_filtered(Bicubic(), axis, span, into);
    case Interpolation::kLanczos:
      return make_filtered(Lanczos(), axis, span, into);
  }
}

void make_weights(const Axis& axis, ExactFilterWeights& into) {
  const Span span = span_of(axis);
  switch (axis.interpolation) {
    case Interpolation::kNearest:
      make_nearest(axis, span, into);
      into.high.assign(num_weights(into), 0);
      into.low.assign(num_weights(into), 0);
      for (std::size_t i = 0; i < into.high.size(); i += 2) {
        into.high[i] = 1 << (kExactWeightBits - kLowBits);
      }
      break;
    case Interpolation::kBox:
      return make_filtered(ExactBox(), axis, span, into);
    case Interpolation::kBilinear:
      return make_filtered(ExactBilinear(), axis, span, into);
    case Interpolation::kBicubic:
      return make_filtered(ExactBicubic(), axis, span, into);
    case Interpolation::kLanczos:
      return make_filtered(ExactLanczos(), axis, span, into);
  }
}

template <class Table>
const Table* FilterWeightsCache::LeastRecentlyUsed<Table>::get(const Axis& axis) {
  ++now;
  Entry* oldest = entries.data();
  for (Entry& entry : entries) {
    if (entry.used != 0 && entry.axis == axis) {
      entry.used = now;
      return &entry.table;
    }
    if (entry.used < oldest->used) {
      oldest = &entry;
    }
  }
  // Marked as empty until the table is complete: making it may throw.
  oldest->used = 0;
  make_weights(axis, oldest->table);
  oldest->axis = axis;
  oldest->used = now;
  return &oldest->table;
}

template struct FilterWeightsCache::LeastRecentlyUsed<FilterWeights>;
template struct FilterWeightsCache::LeastRecentlyUsed<ExactFilterWeights>;

}  // namespace spdl
