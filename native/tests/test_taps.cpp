#include "image/taps.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace spdl {
namespace {

Axis axis_of(Interpolation interpolation, int size, int resized) {
  Axis axis;
  axis.interpolation = interpolation;
  axis.size = size;
  axis.extent = size;
  axis.resized = resized;
  axis.count = resized;
  return axis;
}

constexpr Interpolation kAll[] = {Interpolation::kNearest, Interpolation::kBox, Interpolation::kBilinear,
                                  Interpolation::kBicubic, Interpolation::kLanczos};

}  // namespace

TEST_CASE("weights of an output sum to one, and refer to samples that are there") {
  for (const Interpolation interpolation : kAll) {
    for (const int size : {1, 2, 7, 100}) {
      for (const int resized : {1, 3, 50, 300}) {
        CAPTURE(static_cast<int>(interpolation));
        CAPTURE(size);
        CAPTURE(resized);
        Taps taps;
        make_taps(axis_of(interpolation, size, resized), taps);
        CHECK(taps.size() == resized);
        CHECK(taps.num_taps % 2 == 0);
        CHECK((taps.span.begin >= 0 && taps.span.end <= size));
        for (int i = 0; i < resized; ++i) {
          const auto begin = taps.weights.begin() + static_cast<std::ptrdiff_t>(i) * taps.num_taps;
          CHECK(std::accumulate(begin, begin + taps.num_taps, 0) == 1 << kWeightBits);
          CHECK(taps.first[static_cast<std::size_t>(i)] >= 0);
          for (int k = 0; k < taps.num_taps; ++k) {
            if (begin[k] != 0) {
              CHECK(taps.span.begin + taps.first[static_cast<std::size_t>(i)] + k < taps.span.end);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("outputs in reverse have the weights of the others, in reverse") {
  Axis axis = axis_of(Interpolation::kBilinear, 9, 4);
  Taps forwards;
  Taps backwards;
  make_taps(axis, forwards);
  axis.is_reversed = true;
  make_taps(axis, backwards);
  CHECK(forwards.span == backwards.span);
  for (std::size_t i = 0; i < 4; ++i) {
    for (int sample = 0; sample < 9; ++sample) {
      const auto weight = [&](const Taps& taps, std::size_t output) {
        const int k = sample - taps.span.begin - taps.first[output];
        return k < 0 || k >= taps.num_taps
                   ? 0
                   : static_cast<int>(taps.weights[output * static_cast<std::size_t>(taps.num_taps) +
                                                   static_cast<std::size_t>(k)]);
      };
      CHECK(weight(forwards, i) == weight(backwards, 3 - i));
    }
  }
}

TEST_CASE("a table that was made is found again") {
  TapsCache cache;
  const Axis axis = axis_of(Interpolation::kBicubic, 20, 10);
  const Taps* const first = cache.get(axis);
  CHECK(cache.get(axis_of(Interpolation::kBicubic, 20, 11)) != first);
  CHECK(cache.get(axis) == first);
}

}  // namespace spdl
