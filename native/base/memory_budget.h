// How much memory all threads of the process may use at once for what large pictures are decoded into.
//
// A thread takes a lease before it takes the memory, and waits while others hold too much; one alone always may, whatever
// it asks for. Leases are given in the order they are asked for, so that a large one is not passed by small ones for ever.
// Who holds a lease must not ask for a second one, nor wait for another thread. Safe from any thread, without a lock.

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

  // The right to use that much until its end.
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

  // Waits until it fits.
  Lease take(std::size_t bytes) noexcept;

  // How much there is; returns how much there was. What is held stays held.
  std::size_t set_limit(std::size_t bytes) noexcept { return limit_.exchange(bytes); }
  // How much was in use at most since this was last asked.
  std::size_t take_peak() noexcept { return peak_.exchange(in_use_.load()); }

  // In the child of a fork, which has none of the threads that hold leases or wait for them.
  void reset() noexcept;

 private:
  void give_back(std::size_t bytes) noexcept;

  std::atomic<std::size_t> limit_{kDefaultBytes};
  std::atomic<std::size_t> in_use_{0};
  std::atomic<std::size_t> peak_{0};
  // Whose turn it is: the one with this number waits for room, those with later ones for their turn.
  std::atomic<std::uint64_t> next_turn_{0};
  std::atomic<std::uint64_t> turn_{0};
};

// The process's. Each extension has one of its own until it is told to use that of another.
MemoryBudget& memory_budget() noexcept;
void share_memory_budget(MemoryBudget& budget) noexcept;
// Has children of fork begin with nothing in use. Once is enough.
void reset_memory_budget_after_fork() noexcept;

}  // namespace spdl
