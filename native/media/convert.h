// Copies frames into one array: rows without padding, in the caller's memory.
//
// Stateless functions. Two threads may convert different frames at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/element_type.h"
#include "media/frames.h"

namespace spdl {

// The layout of the array of some frames. C order.
struct ArrayLayout {
  std::vector<std::ptrdiff_t> shape;
  ElementType type;
  std::size_t num_bytes = 0;

  friend bool operator==(const ArrayLayout&, const ArrayLayout&) = default;
};

// Of one Frames. Throws Error: kUnsupportedFormat (the message lists those that have a layout), kConvert (frames that
// differ from each other in size or format, or none of them).
ArrayLayout layout_of(const Frames& frames);

// Copies into `out`, which has `layout_of(frames).num_bytes` bytes.
void copy_frames(const Frames& frames, std::uint8_t* out);

// The name of their pixel or sample format. Frames with the same layout mean the same only if this is equal too.
std::string format_name_of(const Frames& frames);

}  // namespace spdl
