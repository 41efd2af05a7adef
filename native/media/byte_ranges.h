// Bytes of a source that other code reads in parts, such as an object in a store.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/watch.h"

namespace spdl {

// One thread at a time.
class ByteRanges {
 public:
  ByteRanges() = default;
  ByteRanges(const ByteRanges&) = delete;
  ByteRanges& operator=(const ByteRanges&) = delete;
  virtual ~ByteRanges() = default;

  virtual std::int64_t size() const noexcept = 0;
  // How many bytes from that position on were read; 0 at the end. Waits no longer than the watch allows. Throws Error;
  // Cancelled.
  virtual std::size_t read(std::int64_t position, std::span<std::uint8_t> into, Watch& watch) = 0;
};

}  // namespace spdl
