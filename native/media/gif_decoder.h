// GIF to a frame, without FFmpeg: half of its decoder's time is LZW, which unpack_lzw takes a third of.

#pragma once

#include <cstdint>

#include "av/owners.h"
#include "image/gif.h"

namespace spdl {

// The first picture as FFmpeg's decoder gives it, what is transparent with the colour that the palette has for it. Null for what is
// unusual (a picture that does not cover the screen, no palette) or damaged, which that decoder is to judge, and for more pixels
// than that.
av::FramePtr decode_gif(Bytes gif, const GifFacts& facts, std::int64_t max_pixels);

}  // namespace spdl
