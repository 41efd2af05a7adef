// Which pixel formats have an array layout, and which one.
//
// Constants; safe to use from any thread.

#pragma once

extern "C" {
#include <libavutil/pixfmt.h>
}

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "av/owners.h"
#include "base/element_type.h"

namespace spdl {

// One plane of a picture, as rows to copy.
struct PlaneRows {
  std::size_t num_rows = 0;
  std::size_t row_bytes = 0;
};

struct PictureLayout {
  std::vector<std::ptrdiff_t> shape;  // of one picture
  ElementType type;
  std::vector<PlaneRows> planes;  // one after the other, in FFmpeg's order
  bool is_swapped = false;        // 16 bits in the byte order of other machines

  std::size_t num_bytes() const noexcept;
};

// Throws Error(kUnsupportedFormat), listing the formats that have a layout, or the condition that the size must meet.
PictureLayout picture_layout(int format, int width, int height);
// Also of stored samples (media/stored_samples.h).
PictureLayout picture_layout(const AVFrame& frame);

// Writes `layout.num_bytes()` bytes. `out` may be the frame's own memory, where that has no padding.
void copy_picture(const PictureLayout& layout, const AVFrame& frame, std::uint8_t* out);

}  // namespace spdl
