#include "observe/sampling_pace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

namespace spdl {
namespace {

constexpr double kPeriod = 0.05;
constexpr double kShare = 0.001;
// The sums of many numbers.
constexpr double kRounding = 1e-9;

// A sampler of a clock that stands still unless it waits. `cost_of(k, now)` is what its k-th look takes.
struct Run {
  double now = 0;
  double spent = 0;
  std::size_t num_looks = 0;
  // How much more than the share was spent at the begins and at the ends of looks, at most.
  double over_before = -1;
  double over_after = -1;
};

template <typename CostOf, typename NewOf>
Run run_for(double seconds, unsigned seed, CostOf cost_of, NewOf num_new_at) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  SamplingPace pace(kPeriod, kShare);
  Run run;
  while (true) {
    run.now += std::max(0.0, pace.wait(run.now, factor(random), num_new_at(run.num_looks)));
    if (run.now > seconds) {
      return run;
    }
    run.over_before = std::max(run.over_before, run.spent - kShare * run.now);
    run.spent += cost_of(run.num_looks, random);
    run.over_after = std::max(run.over_after, run.spent - kShare * run.now);
    ++run.num_looks;
    pace.looked(run.spent);
  }
}

std::size_t none(std::size_t) { return 0; }

}  // namespace

TEST_CASE("cheap looks come at the shortest period") {
  const Run run = run_for(100, 1, [](std::size_t, auto&) { return 10e-6; }, none);
  CHECK(run.num_looks > 1900);
  CHECK(run.num_looks < 2100);
  CHECK(run.over_after <= kRounding);
}

TEST_CASE("costly looks take the whole share, and never more") {
  for (const double cost : {60e-6, 200e-6, 1e-3, 20e-3, 0.2}) {
    CAPTURE(cost);
    // All threads are new to the first look, which so knows what it costs.
    const auto num_new = [&](std::size_t looks) { return looks == 0 ? static_cast<std::size_t>(cost / 12e-6) : 0; };
    const Run run = run_for(100'000 * cost, 2, [&](std::size_t, auto&) { return cost; }, num_new);
    CHECK(run.over_after <= kRounding);
    CHECK(run.num_looks >= 90);  // 100 would be the whole share
  }
}

TEST_CASE("a look that costs more than all before is made up for") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::minstd_rand choose(seed);
    std::uniform_real_distribution<double> exponent(-5.3, -2);
    const double most = std::pow(10, exponent(choose));
    std::uniform_real_distribution<double> cost(most / 10, most);
    const Run run = run_for(60, seed, [&](std::size_t, auto& random) { return cost(random); }, none);
    CHECK(run.over_before <= kRounding);
    CHECK(run.over_after <= most);
  }
}

TEST_CASE("threads that come later are expected to cost more once") {
  const auto num_new = [](std::size_t looks) { return looks % 50 == 10 ? std::size_t{40} : std::size_t{0}; };
  const auto cost = [&](std::size_t looks, auto&) { return 12e-6 + 10e-6 * static_cast<double>(num_new(looks)); };
  const Run run = run_for(1000, 4, cost, num_new);
  CHECK(run.over_after <= kRounding);
  CHECK(run.num_looks > 15'000);
}

}  // namespace spdl
