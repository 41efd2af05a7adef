// One picture as users ask for it: from a source through a filter to a frame.

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
  // Neither: the short way of still images, without a demuxer where the format needs none.
  std::optional<DemuxConfig> demux;
  std::optional<DecodeConfig> decode;
  std::optional<std::string> filter;  // none: in the decoder's own format
  std::int64_t max_pixels = kDefaultMaxPixels;
  bool orient = false;                // turned upright before the filter
};

// One frame. `name` is what messages say. Throws Error: kSourceNotFound, kOpen, kStreamNotFound, kDemux, kDecode,
// kImageTooLarge, kFilter.
Frames load_picture(const ImageSource& source, const std::string& name, const PictureOptions& options);

}  // namespace spdl
