// Weights of a one-dimensional resampling, in fixed point.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace spdl {

// Weights are multiples of 2^-14: with 8-bit samples and 16-bit multipliers the largest precision without overflow.
inline constexpr int kWeightBits = 14;

// Output i is the sum over k of weights[i * num_taps + k] * input[first[i] + k]; num_taps is even. Weights of one
// output sum to exactly 1 << kWeightBits, so flat areas stay flat. Where the input is shorter than num_taps, the last
// weights are zero and their positions lie past the input.
struct Taps {
  int num_taps = 0;
  std::vector<std::int32_t> first;
  std::vector<std::int16_t> weights;

  int size() const noexcept { return static_cast<int>(first.size()); }
};

// Cubic convolution with a = -0.5 (Keys 1981), widened to antialias when it shrinks: that of Pillow's BICUBIC.
// The input is `size` samples, of which [0, extent) is resampled to `outputs`.
Taps make_taps(int size, double extent, int outputs);

// The last few Taps made. Pictures of a set share few sizes, and weights cost as much as resampling with them.
// One thread per object; what it returned stays valid.
class TapsCache {
 public:
  std::shared_ptr<const Taps> get(int size, double extent, int outputs);

 private:
  struct Entry {
    int size = 0;
    int outputs = 0;
    double extent = 0;
    std::shared_ptr<const Taps> taps;
  };
  std::vector<Entry> entries_;
  std::size_t next_ = 0;
};

}  // namespace spdl
