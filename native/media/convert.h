// From frames to one array: rows without padding, in memory of the caller's.
//
// Functions; nothing is kept. Two threads may convert different frames at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/element_type.h"
#include "media/frames.h"

namespace spdl {

// What the array of some frames looks like. C order.
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

// Whether frames with the same layout also mean the same: the name of their pixel or sample format.
std::string format_name_of(const Frames& frames);

}  // namespace spdl
