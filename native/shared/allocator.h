// Tracks which parts of a range are allocated. Handles offsets only, and touches no memory.
//
// Best fit: takes the low end of the smallest hole that is large enough; of equal ones, the one freed last, which may
// still be in a cache. Neighbouring holes are merged. So allocations stay together at the low end, and used memory is
// reused before fresh memory is touched. Knuth, The Art of Computer Programming, vol. 1, section 2.5.
//
// Both operations are logarithmic in the number of holes. One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace spdl {

class Allocator {
 public:
  // Offsets and sizes are multiples of this: a cache line, and the widest vector register.
  static constexpr std::size_t kUnit = 64;

  explicit Allocator(std::size_t size);

  // Offset of `size` bytes; none if no hole is large enough. `size` is a positive multiple of kUnit.
  std::optional<std::size_t> take(std::size_t size);
  // Frees a whole allocation.
  void give_back(std::size_t offset, std::size_t size);

  std::size_t num_bytes_used() const noexcept { return num_bytes_used_; }
  // Calls visit(offset, size) for each hole, from the high end down.
  template <class Visit>
  void visit_holes(Visit&& visit) const {
    for (auto hole = holes_.rbegin(); hole != holes_.rend(); ++hole) {
      visit(hole->first, hole->second.size);
    }
  }

 private:
  struct Hole {
    std::size_t size;
    std::uint64_t age;  // decreases with every new hole: of equal sizes, the newest comes first
  };
  using Holes = std::map<std::size_t, Hole>;

  void add(std::size_t offset, std::size_t size, std::uint64_t age);
  void remove(Holes::iterator hole);

  Holes holes_;  // by offset
  std::set<std::tuple<std::size_t, std::uint64_t, std::size_t>> by_size_;  // size, age, offset
  std::uint64_t next_age_ = UINT64_MAX;
  std::size_t num_bytes_used_ = 0;
};

}  // namespace spdl
