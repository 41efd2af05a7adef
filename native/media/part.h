// A piece of memory and what keeps it: how the bytes of packets and frames leave and come back without a copy.
//
// Values: copies share the memory, which nobody writes to. The owner may be dropped on any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "av/owners.h"
#include "base/buffer.h"

namespace spdl {

struct Part {
  std::span<const std::uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

// Something taken apart: its description and all that is small in one part, and the rest where it lies.
struct Parts {
  Part joined;
  std::vector<Part> beside;
};

// What is smaller is put together with others: a buffer of its own costs its receiver more than the copy does. (About
// 2 us for one in shared memory, where 32 KiB are copied in the same time.)
inline constexpr std::size_t kWorthAPart = std::size_t{32} << 10;

// A part of what a reference of libav's keeps.
Part part_of(const AVBufferRef& reference, std::span<const std::uint8_t> bytes);
// The first `size` bytes of memory of its own.
Part part_of(Buffer memory, std::size_t size);

// A reference for libav to these bytes of the part, marked read-only.
av::BufferRefPtr reference_to(const Part& part, std::span<const std::uint8_t> bytes);

}  // namespace spdl
