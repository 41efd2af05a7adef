// How many pictures a packet shows, by its header. Reads bytes only.

#pragma once

#include <optional>

#include "image/bytes.h"

extern "C" {
#include <libavcodec/codec_id.h>
}

namespace spdl {

// Of VP8 and VP9, whose encoders write pictures that only others refer to (alternate reference frames): 0 for those. Of
// MPEG-4 Part 2: 0 for "the picture before once more". None if the header does not tell, as with all other codecs.
std::optional<int> num_shown_frames(AVCodecID codec, Bytes packet) noexcept;

}  // namespace spdl
