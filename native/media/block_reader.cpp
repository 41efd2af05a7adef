#include "media/block_reader.h"

#include <algorithm>

namespace spdl {

std::span<const std::uint8_t> BlockReader::operator()(std::int64_t position, std::size_t size) {
  size = std::min(size, kBlock);
  const auto end = [](std::int64_t start, std::size_t length) { return start + static_cast<std::int64_t>(length); };
  if (position < start_ || end(position, size) > end(start_, size_)) {
    // A reader that goes backwards gets a block that ends with what it wants.
    const auto step = static_cast<std::int64_t>(kBlock);
    const bool is_backward = position < start_ && position + step > start_;
    start_ = is_backward ? std::max<std::int64_t>(end(position, size) - step, 0) : position;
    size_ = read_(start_, block_);
  }
  const auto offset = static_cast<std::size_t>(position - start_);
  return offset >= size_ ? std::span<const std::uint8_t>() : std::span(block_).subspan(offset, std::min(size, size_ - offset));
}

}  // namespace spdl
