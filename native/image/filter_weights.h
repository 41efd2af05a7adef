// Weights of a one-dimensional resampling, in fixed point.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "image/axis.h"

namespace spdl {

// Weights are multiples of 2^-14: the highest precision without overflow for 8-bit samples and 16-bit multipliers.
inline constexpr int kWeightBits = 14;

// Pillow's (src/libImaging/Resample.c), which rounds to this after each direction.
inline constexpr int kExactWeightBits = 22;
// Bits of the lower part of an exact weight, so that 16-bit multipliers suffice: weight = high * 2^8 + low.
inline constexpr int kLowBits = 8;

// Samples [begin, end) of a component.
struct Span {
  int begin = 0;
  int end = 0;

  constexpr int size() const noexcept { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

// The samples that the wanted outputs of an axis depend on, with up to one too many at either end; never empty. All
// tables below stay inside.
Span used_samples(const Axis& axis) noexcept;

// Output i of those wanted is the sum over k < num_taps of a weight times sample span.begin + first[i] + k. num_taps is
// even. Weights whose positions lie past the span, which are less than num_taps, are zero.
struct FilterPositions {
  int num_taps = 0;
  Span span;
  std::vector<std::int32_t> first;

  int size() const noexcept { return static_cast<int>(first.size()); }
};

// weights[i * num_taps + k] of one output sum to exactly 1 << kWeightBits, so flat areas stay flat.
struct FilterWeights : FilterPositions {
  std::vector<std::int16_t> weights;
  // Scratch of make_weights.
  std::vector<float> sums;
};

// The weights are those of Pillow, bit for bit, in multiples of 2^-22: high[i * num_taps + k] * 2^kLowBits + low[...].
struct ExactFilterWeights : FilterPositions {
  std::vector<std::int16_t> high;
  std::vector<std::int16_t> low;
  // Scratch of make_weights.
  std::vector<double> row;
};

// Filters and windows are Pillow's: box, bilinear (support 1), bicubic (a = -0.5, Keys 1981), Lanczos (a = 3). `into`
// is overwritten; its memory is reused. The axis has at least one sample and one output.
void make_weights(const Axis& axis, FilterWeights& into);
void make_weights(const Axis& axis, ExactFilterWeights& into);

// A cache of the last few tables. Pictures of a dataset have few different sizes, and computing weights costs as much
// as resampling; if each picture is cropped differently, at least the memory is reused. One thread per object.
class FilterWeightsCache {
 public:
  // Valid until kSize - 1 more tables of that kind were asked for.
  const FilterWeights* get(const Axis& axis) { return fast_.get(axis); }
  const ExactFilterWeights* get_exact(const Axis& axis) { return exact_.get(axis); }

  static constexpr std::size_t kSize = 32;

 private:
  template <class Table>
  struct LeastRecentlyUsed {
    struct Entry {
      Axis axis;
      std::uint64_t used = 0;  // when; 0 is never
      Table table;
    };
    std::array<Entry, kSize> entries;
    std::uint64_t now = 0;

    const Table* get(const Axis& axis);
  };
  LeastRecentlyUsed<FilterWeights> fast_;
  LeastRecentlyUsed<ExactFilterWeights> exact_;
};

}  // namespace spdl
