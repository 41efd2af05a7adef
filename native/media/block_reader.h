// Bytes of an input at any position, read in large blocks.
//
// For code that looks at a few bytes here and there, mostly near the last ones. One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace spdl {

// Gives bytes from that position on, fewer at the end. Valid until the next call.
using BytesAt = std::function<std::span<const std::uint8_t>(std::int64_t position, std::size_t size)>;

class BlockReader {
 public:
  // Reads bytes from that position on into the span, and returns how many there were.
  using Read = std::function<std::size_t(std::int64_t position, std::span<std::uint8_t> into)>;

  explicit BlockReader(Read read) : read_(std::move(read)), block_(kBlock) {}

  std::span<const std::uint8_t> operator()(std::int64_t position, std::size_t size);

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;

  Read read_;
  std::vector<std::uint8_t> block_;
  std::int64_t start_ = 0;  // of what the block holds
  std::size_t size_ = 0;    // of what the block holds
};

}  // namespace spdl
