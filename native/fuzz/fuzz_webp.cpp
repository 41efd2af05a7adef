// WebP: chunks lie inside of the file. Animated: the first frame as a file of its own, which begins like one and lies in the
// memory that was given. Each of its frames lies inside of the file.

#include <cstddef>
#include <cstdlib>
#include <optional>

#include "fuzz/target.h"
#include "image/webp.h"

void fuzz(std::span<const std::uint8_t> data) {
  for (const char* name : {"ALPH", "ICCP", "VP8 "}) {
    spdl::fuzz_touch(spdl::find_webp_chunk(data, name));
  }
  // Chunks of an animation's frames begin anywhere; what is in one lies inside of it.
  std::optional<spdl::WebpAnimationFrame> before;
  for (std::size_t at = 0; at < data.size(); ++at) {
    const spdl::Bytes chunk = data.subspan(at);
    const auto frame = spdl::animation_frame(chunk);
    if (!frame) {
      continue;
    }
    if (frame->left < 0 || frame->top < 0 || frame->width < 1 || frame->height < 1 || frame->duration < 0 ||
        frame->picture.data() < chunk.data() || frame->picture.data() + frame->picture.size() > data.data() + data.size()) {
      std::abort();
    }
    spdl::fuzz_touch(frame->picture);
    if (before && spdl::is_key_frame(*frame, *before, true, 64, 48) < spdl::is_key_frame(*frame, *before, false, 64, 48)) {
      std::abort();
    }
    before = frame;
  }
  spdl::Buffer memory;
  const auto frame = spdl::first_frame(data, memory);
  if (!frame) {
    return;
  }
  if (!spdl::has_name(frame->data, 0, "RIFF") || !spdl::has_name(frame->data, 8, "WEBPVP8X") ||
      frame->data.size() > data.size() + 30 || frame->canvas_width < 1 || frame->canvas_height < 1 || frame->left < 0 ||
      frame->top < 0) {
    std::abort();
  }
  spdl::fuzz_touch(frame->data);
}
