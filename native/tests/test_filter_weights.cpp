#include "image/filter_weights.h"

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
        FilterWeights table;
        make_weights(axis_of(interpolation, size, resized), table);
        CHECK(table.size() == resized);
        CHECK(table.num_taps % 2 == 0);
        CHECK((table.span.begin >= 0 && table.span.end <= size));
        for (int i = 0; i < resized; ++i) {
          const auto begin = table.weights.begin() + static_cast<std::ptrdiff_t>(i) * table.num_taps;
          CHECK(std::accumulate(begin, begin + table.num_taps, 0) == 1 << kWeightBits);
          CHECK(table.first[static_cast<std::size_t>(i)] >= 0);
          for (int k = 0; k < table.num_taps; ++k) {
            if (begin[k] != 0) {
              CHECK(table.span.begin + table.first[static_cast<std::size_t>(i)] + k < table.span.end);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("outputs in reverse have the weights of the others, in reverse") {
  Axis axis = axis_of(Interpolation::kBilinear, 9, 4);
  FilterWeights forwards;
  FilterWeights backwards;
  make_weights(axis, forwards);
  axis.is_reversed = true;
  make_weights(axis, backwards);
  CHECK(forwards.span == backwards.span);
  for (std::size_t i = 0; i < 4; ++i) {
    for (int sample = 0; sample < 9; ++sample) {
      const auto weight = [&](const FilterWeights& table, std::size_t output) {
        const int k = sample - table.span.begin - table.first[output];
        return k < 0 || k >= table.num_taps
                   ? 0
                   : static_cast<int>(table.weights[output * static_cast<std::size_t>(table.num_taps) +
                                                   static_cast<std::size_t>(k)]);
      };
      CHECK(weight(forwards, i) == weight(backwards, 3 - i));
    }
  }
}

TEST_CASE("a table that was made is found again") {
  FilterWeightsCache cache;
  const Axis axis = axis_of(Interpolation::kBicubic, 20, 10);
  const FilterWeights* const first = cache.get(axis);
  CHECK(cache.get(axis_of(Interpolation::kBicubic, 20, 11)) != first);
  CHECK(cache.get(axis) == first);
}

}  // namespace spdl
