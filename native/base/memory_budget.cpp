#include "base/memory_budget.h"

#include <pthread.h>

#include <algorithm>

namespace spdl {
namespace {

constinit MemoryBudget own_budget;
constinit std::atomic<MemoryBudget*> current_budget{&own_budget};

}  // namespace

MemoryBudget::Lease MemoryBudget::take(std::size_t bytes) noexcept {
  if (bytes < kFreeBelow) {
    return {};
  }
  const std::uint64_t mine = next_turn_++;
  for (std::uint64_t turn = turn_; turn != mine; turn = turn_) {
    turn_.wait(turn);
  }
  // Nobody else adds to it meanwhile.
  for (std::size_t in_use = in_use_; in_use != 0 && bytes > limit_ - std::min(in_use, limit_.load()); in_use = in_use_) {
    in_use_.wait(in_use);
  }
  const std::size_t in_use = in_use_ += bytes;
  if (in_use > peak_) {
    peak_ = in_use;
  }
  ++turn_;
  turn_.notify_all();
  return {*this, bytes};
}

void MemoryBudget::give_back(std::size_t bytes) noexcept {
  in_use_ -= bytes;
  in_use_.notify_all();
}

void MemoryBudget::reset() noexcept {
  in_use_ = 0;
  peak_ = 0;
  next_turn_ = 0;
  turn_ = 0;
}

MemoryBudget& memory_budget() noexcept { return *current_budget.load(std::memory_order_relaxed); }

void share_memory_budget(MemoryBudget& budget) noexcept { current_budget.store(&budget, std::memory_order_relaxed); }

void reset_memory_budget_after_fork() noexcept {
  [[maybe_unused]] static const int refused = pthread_atfork(nullptr, nullptr, [] { own_budget.reset(); });
}

}  // namespace spdl
