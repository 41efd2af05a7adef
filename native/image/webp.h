// The first frame of an animated WebP, as a WebP of its own.

#pragma once

#include <optional>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

struct WebpFrame {
  Bytes data;
  int left = 0;
  int top = 0;
  int canvas_width = 0;
  int canvas_height = 0;
};

// Empty for a WebP that is no animation. `data` of the frame is a view of `into`.
std::optional<WebpFrame> first_frame(Bytes webp, Buffer& into);

}  // namespace spdl
