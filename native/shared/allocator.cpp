#include "shared/allocator.h"

#include <iterator>

namespace spdl {

Allocator::Allocator(std::size_t size) {
  if (size > 0) {
    add(0, size, next_age_--);
  }
}

void Allocator::add(std::size_t offset, std::size_t size, std::uint64_t age) {
  holes_.emplace(offset, Hole{size, age});
  by_size_.emplace(size, age, offset);
}

void Allocator::remove(Holes::iterator hole) {
  by_size_.erase({hole->second.size, hole->second.age, hole->first});
  holes_.erase(hole);
}

std::optional<std::size_t> Allocator::take(std::size_t size) {
  const auto found = by_size_.lower_bound({size, 0, 0});
  if (found == by_size_.end()) {
    return std::nullopt;
  }
  const auto [hole_size, age, offset] = *found;
  remove(holes_.find(offset));
  if (hole_size > size) {
    add(offset + size, hole_size - size, age);
  }
  num_bytes_used_ += size;
  return offset;
}

void Allocator::give_back(std::size_t offset, std::size_t size) {
  num_bytes_used_ -= size;
  const auto next = holes_.lower_bound(offset);
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.size == offset) {
      offset = previous->first;
      size += previous->second.size;
      remove(previous);
    }
  }
  if (next != holes_.end() && next->first == offset + size) {
    size += next->second.size;
    remove(next);
  }
  add(offset, size, next_age_--);
}

}  // namespace spdl
