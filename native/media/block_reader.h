// Bytes of an input at any position, read in blocks.
//
// For code that reads a few bytes here and there, mostly near earlier reads: the last few blocks are kept. One thread
// per object.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace spdl {

// Returns up to 4096 bytes from that position on, fewer at the end. They are valid until the next call.
using BytesAt = std::function<std::span<const std::uint8_t>(std::int64_t position, std::size_t size)>;

class BlockReader {
 public:
  // Reads bytes from that position on into the span, and returns how many were read.
  using Read = std::function<std::size_t(std::int64_t position, std::span<std::uint8_t> into)>;

  explicit BlockReader(Read read) : read_(std::move(read)) {}

  std::span<const std::uint8_t> operator()(std::int64_t position, std::size_t size);

 private:
  static constexpr std::size_t kBlockSize = std::size_t{1} << 15;
  static constexpr std::size_t kMostBytes = 4096;

  struct Block {
    std::int64_t number = -1;  // it begins at this multiple of kBlockSize
    std::vector<std::uint8_t> bytes;
  };

  // What the block with that number holds from that offset on.
  std::span<const std::uint8_t> from_block(std::int64_t number, std::size_t offset);

  Read read_;
  std::array<Block, 4> blocks_;
  std::size_t next_ = 0;  // index of the block to replace next
  std::array<std::uint8_t, kMostBytes> joined_;
};

}  // namespace spdl
