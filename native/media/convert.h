// From frames to one array: rows without padding, in memory of the caller's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "media/frames.h"

namespace spdl {

// What the array of some frames looks like. C order. `type` is NumPy's type string, such as "|u1" or "<f4".
struct ArrayLayout {
  std::vector<std::ptrdiff_t> shape;
  std::string type;
  std::size_t num_bytes = 0;
};

// Of one Frames. Throws Error: kUnsupportedFormat (the message lists those that have a layout), kConvert (frames that
// differ from each other in size or format, or none of them).
ArrayLayout layout_of(const Frames& frames);

// Copies into `out`, which has `layout_of(frames).num_bytes` bytes.
void copy_frames(const Frames& frames, std::uint8_t* out);

}  // namespace spdl
