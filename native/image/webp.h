// The chunks of a WebP file, the frames of an animation, and its first frame as a separate WebP file.

#pragma once

#include <optional>
#include <string_view>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// The contents of the first chunk of that name, as far as present; empty if there is none.
Bytes find_webp_chunk(Bytes webp, std::string_view name) noexcept;

// What the extended header says (RFC 9649, 2.7); none if there is none, or if it is no animation.
struct WebpAnimationHeader {
  int width = 0;  // of the canvas
  int height = 0;
  bool has_alpha = false;
};
std::optional<WebpAnimationHeader> animation_header(Bytes webp) noexcept;

// A chunk of an animation's frame (RFC 9649, 2.7.1.1). `chunk` includes its name and size; `picture` is a view of it.
struct WebpAnimationFrame {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  int duration = 0;      // in milliseconds
  bool blends = false;   // its alpha is used, rather than stored
  bool disposes = false;  // its place is cleared afterwards
  bool has_alpha = false;
  Bytes picture;  // its chunks

  bool fills(int canvas_width, int canvas_height) const noexcept { return width == canvas_width && height == canvas_height; }
};
// None for anything else, and for what is cut off before the picture's first bytes.
std::optional<WebpAnimationFrame> animation_frame(Bytes chunk) noexcept;
// Whether it looks the same whatever the frame before it was; `before_is_key`: whether that one did. (libwebp,
// src/demux/anim_decode.c, IsKeyFrame.)
bool is_key_frame(const WebpAnimationFrame& frame, const WebpAnimationFrame& before, bool before_is_key, int canvas_width,
                  int canvas_height) noexcept;

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
