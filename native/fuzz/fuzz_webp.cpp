// WebP: chunks lie inside of the file. Animated: the first frame as a file of its own, which begins like one and lies in the
// memory that was given.

#include <cstdlib>

#include "fuzz/target.h"
#include "image/webp.h"

void fuzz(std::span<const std::uint8_t> data) {
  for (const char* name : {"ALPH", "ICCP", "VP8 "}) {
    spdl::fuzz_touch(spdl::find_webp_chunk(data, name));
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
