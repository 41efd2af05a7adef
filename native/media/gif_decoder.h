// Decodes GIF to a frame without FFmpeg: half of its decoder's time is LZW, and unpack_lzw takes a third of that.

#pragma once

#include <cstdint>

#include "av/owners.h"
#include "image/gif.h"

namespace spdl {

// The first picture as FFmpeg's decoder gives it, but with the palette's colour for transparent pixels. Null for
// unusual data (a picture that does not cover the screen, no palette) or damaged data, which are left to FFmpeg's
// decoder, and for more than `max_pixels`.
av::FramePtr decode_gif(Bytes gif, const GifFacts& facts, std::int64_t max_pixels);

}  // namespace spdl
