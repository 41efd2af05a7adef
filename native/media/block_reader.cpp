#include "media/block_reader.h"

#include <algorithm>

namespace spdl {

std::span<const std::uint8_t> BlockReader::from_block(std::int64_t number, std::size_t offset) {
  auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& each) { return each.number == number; });
  if (block == blocks_.end()) {
    block = blocks_.begin() + static_cast<std::ptrdiff_t>(next_);
    next_ = (next_ + 1) % blocks_.size();
    block->number = -1;  // if reading throws
    block->bytes.resize(kBlockSize);
    block->bytes.resize(read_(number * static_cast<std::int64_t>(kBlockSize), block->bytes));
    block->number = number;
  }
  return std::span(block->bytes).subspan(std::min(offset, block->bytes.size()));
}

std::span<const std::uint8_t> BlockReader::operator()(std::int64_t position, std::size_t size) {
  if (position < 0) {
    return {};
  }
  size = std::min(size, kMostBytes);
  const std::int64_t number = position / static_cast<std::int64_t>(kBlockSize);
  const auto offset = static_cast<std::size_t>(position % static_cast<std::int64_t>(kBlockSize));
  const auto bytes = from_block(number, offset);
  if (bytes.size() >= size || offset + bytes.size() < kBlockSize) {
    return bytes.first(std::min(bytes.size(), size));
  }
  // The rest is in the next block.
  std::copy(bytes.begin(), bytes.end(), joined_.begin());
  const std::size_t num_first = bytes.size();
  const auto rest = from_block(number + 1, 0);
  const std::size_t num_rest = std::min(rest.size(), size - num_first);
  std::copy_n(rest.begin(), num_rest, joined_.begin() + static_cast<std::ptrdiff_t>(num_first));
  return std::span(joined_).first(num_first + num_rest);
}

}  // namespace spdl
