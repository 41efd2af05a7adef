// Random numbers that are a function of a seed alone, on every machine. Values only.

#pragma once

#include <cmath>
#include <cstdint>

namespace spdl {

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), figure 17. All seeds are equally
// good, and so are all numbers of a sequence.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}

  // Uniform in [0, 1), of 53 bits.
  double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  double uniform(double from, double to) noexcept { return from + (to - from) * uniform(); }

  // Uniform in [0, count).
  int below(int count) noexcept {
    return static_cast<int>((static_cast<std::uint64_t>(count) * (next() >> 32)) >> 32);
  }

  // Log-uniform between `low` and `high`. Uses only multiplications and square roots, which IEEE 754 rounds the same
  // everywhere, unlike exp and log: bit k of the exponent stands for the factor's 2^-k th power.
  double log_uniform(double low, double high) noexcept {
    const std::uint64_t exponent = next();
    double value = low;
    double factor = high / low;
    for (int bit = 63; bit >= 16; --bit) {
      factor = std::sqrt(factor);
      if ((exponent >> bit & 1) != 0) {
        value *= factor;
      }
    }
    return value;
  }

 private:
  std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  std::uint64_t state_;
};

// Where a random part of a recording begins, as a fraction of the range of possible starts: uniform in [0, 1).
// Independent of the choices that a transform makes with the same seed.
inline double start_share(std::uint64_t seed) noexcept { return SplitMix64(~seed).uniform(); }

}  // namespace spdl
