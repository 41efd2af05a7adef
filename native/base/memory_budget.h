// A limit on the memory that all threads of the process together use for decoding large pictures.
//
// A thread takes a lease before it allocates, and waits while others hold too much; if no other lease is held, it gets
// a lease of any size. Leases are granted in the order of the requests, so small ones cannot starve a large one. The
// holder of a lease must not take a second one or wait for another thread. Thread-safe, without a lock.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace spdl {

class MemoryBudget {
 public:
  // Enough for nine progressive pictures of 24 megapixels. A thread needs no lease for less than kFreeBelow.
  static constexpr std::size_t kDefaultBytes = std::size_t{1} << 30;
  static constexpr std::size_t kFreeBelow = std::size_t{16} << 20;

  constexpr MemoryBudget() = default;
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // The right to use this much memory, until the lease is destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) {
        budget_->give_back(bytes_);
      }
    }

   private:
    friend class MemoryBudget;
    Lease(MemoryBudget& budget, std::size_t bytes) noexcept : budget_(&budget), bytes_(bytes) {}

    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  // Waits until the lease fits in the budget.
  Lease take(std::size_t bytes) noexcept;

  // Sets the limit and returns the previous one. Leases that are held stay valid.
  std::size_t set_limit(std::size_t bytes) noexcept { return limit_.exchange(bytes); }
  // The peak memory in use since the last call.
  std::size_t take_peak() noexcept { return peak_.exchange(in_use_.load()); }

  // For a forked child, which has none of the threads that hold leases or wait for them.
  void reset() noexcept;

 private:
  void give_back(std::size_t bytes) noexcept;

  std::atomic<std::size_t> limit_{kDefaultBytes};
  std::atomic<std::size_t> in_use_{0};
  std::atomic<std::size_t> peak_{0};
  // The number of the request whose turn it is: it waits for room; later ones wait for their turn.
  std::atomic<std::uint64_t> next_turn_{0};
  std::atomic<std::uint64_t> turn_{0};
};

// The process's budget. Each extension has its own until it is set to use another's.
MemoryBudget& memory_budget() noexcept;
void share_memory_budget(MemoryBudget& budget) noexcept;
// Makes forked children start with no memory in use. Call once.
void reset_memory_budget_after_fork() noexcept;

}  // namespace spdl
