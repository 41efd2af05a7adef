// Bytes with their owner, to send packets and frames to another process and receive them without a copy.
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

struct SharedBytes {
  std::span<const std::uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

// An object as bytes, as pickle protocol 5 has it: a description with all that is small, and large buffers that are not copied.
struct Serialized {
  SharedBytes in_band;
  std::vector<SharedBytes> out_of_band;
};

// Smaller data goes in band: a buffer costs its receiver more than the copy does. (About 2 us for one in shared memory; 32 KiB are
// copied in the same time.)
inline constexpr std::size_t kMinOutOfBand = std::size_t{32} << 10;

// Bytes of memory that is reference-counted by libav.
SharedBytes share(const AVBufferRef& reference, std::span<const std::uint8_t> bytes);
// The first `size` bytes of a buffer; the result owns the buffer.
SharedBytes share(Buffer memory, std::size_t size);

// A read-only libav reference to these bytes, which are part of the owner's.
av::BufferRefPtr reference_to(const SharedBytes& owner, std::span<const std::uint8_t> bytes);

}  // namespace spdl
