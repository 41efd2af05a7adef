// Which parts of a range are taken. It knows offsets only, and touches no memory.
//
// Best fit: the smallest hole that will do, of equal ones the last that was freed, which may still be in a cache; the low
// end of it. Neighbouring holes are one. So what is used stays together at the low end, and memory that was used is used
// again before more is touched. Knuth, The Art of Computer Programming, vol. 1, section 2.5.
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

  // Offset of `size` bytes; none if no hole is as large. `size` is a positive multiple of kUnit.
  std::optional<std::size_t> take(std::size_t size);
  // What was taken, whole.
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
    std::uint64_t age;  // falls with every hole that is made: of equal sizes the last comes first
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
