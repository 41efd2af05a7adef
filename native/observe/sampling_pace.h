// When a sampler may look again, if it must not take more than a share of a CPU.
//
// A look is allowed only when the share of the time until then covers everything that was spent, and what this look is
// expected to cost. So at the begin of each look less is spent than allowed, and after it too, unless it cost more than
// any of the last ones and the threads that are new to it explain; the next one then waits until that is made up for.
// Pure arithmetic: the clocks are the caller's.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spdl {

class SamplingPace {
 public:
  // shortest: Mean time between two looks, in seconds, if they cost next to nothing.
  SamplingPace(double shortest, double most_share) : shortest_(shortest), most_share_(most_share) {}

  // A look has ended. spent: CPU time of the sampler so far, in seconds.
  void looked(double spent) {
    const double cost = spent - spent_;
    spent_ = spent;
    highest_ = std::max(cost, kForgetting * highest_);
    ++num_looks_;
  }

  // Seconds from `elapsed` to the next look. elapsed: since the sampler began. factor: how much longer than on average.
  double wait(double elapsed, double factor, std::size_t num_new) const {
    const double mean = num_looks_ == 0 ? 0 : spent_ / static_cast<double>(num_looks_);
    const double period = std::max(shortest_, mean / most_share_);
    return std::max(period * factor, earliest(num_new) - elapsed);
  }

  // When the next look is allowed, in seconds since the sampler began. num_new: threads that it has not yet looked at.
  double earliest(std::size_t num_new) const {
    return (spent_ + std::max(highest_, kFirst) + kNewThread * static_cast<double>(num_new)) / most_share_;
  }

 private:
  // How much of the highest cost of a look is expected of the next one: half of it after 14 looks.
  static constexpr double kForgetting = 0.95;
  // Seconds that a look takes without threads, and what a thread adds when its file is opened. Both with room to
  // spare: 5 us and 8 us were measured.
  static constexpr double kFirst = 15e-6;
  static constexpr double kNewThread = 12e-6;

  const double shortest_;
  const double most_share_;
  double spent_ = 0;
  double highest_ = 0;
  std::uint64_t num_looks_ = 0;
};

}  // namespace spdl
