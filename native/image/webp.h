// The chunks of a WebP file, and the first frame of an animation as a separate WebP file.

#pragma once

#include <optional>
#include <string_view>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// The contents of the first chunk of that name, as far as present; empty if there is none.
Bytes find_webp_chunk(Bytes webp, std::string_view name) noexcept;

struct WebpFrame {
  Bytes data;
  int left = 0;
  int top = 0;
  int canvas_width = 0;
  int canvas_height = 0;
};

// None for a WebP file that is not an animation. `data` of the frame is a view of `into`.
std::optional<WebpFrame> first_frame(Bytes webp, Buffer& into);

}  // namespace spdl
