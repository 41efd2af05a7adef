// Loads one picture as users ask: from a source through a filter to a frame.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/batch.h"
#include "media/decoder.h"
#include "media/frames.h"
#include "media/input.h"

namespace spdl {

struct PictureOptions {
  // If neither is set: the fast path for still images, without a demuxer if the format needs none.
  std::optional<DemuxConfig> demux;
  std::optional<DecodeConfig> decode;
  std::optional<std::string> filter;  // none: in the decoder's own format
  std::int64_t max_pixels = kDefaultMaxPixels;
  bool orient = false;                // turned upright before the filter
};

// Returns one frame. Messages call the source `name`. Throws Error: kSourceNotFound, kOpen, kStreamNotFound, kDemux,
// kDecode, kImageTooLarge, kFilter.
Frames load_picture(const ImageSource& source, const std::string& name, const PictureOptions& options);

}  // namespace spdl
