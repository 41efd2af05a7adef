// Key frames that are less than that.
//
// Containers mark as key frames of H.264 also pictures at which one may begin to decode, but where not all pictures that
// follow are right at once: those of an open group of pictures, and the start of a gradual refresh (ITU-T H.264, D.2.8).
// libav's decoder gives what it has recovered by then, and forgets those that wait for their turn when the data ends.

#pragma once

#include "av/owners.h"

namespace spdl {

// Whether decoding may begin with this key frame and is right from it on. True for all codecs but H.264.
bool is_clean_entry(const AVPacket& key_frame, const AVCodecParameters& parameters) noexcept;

}  // namespace spdl
