// Completes a frame for a picture that is assembled or decoded here: memory, and the profile of its colours.

#pragma once

#include "av/owners.h"
#include "image/bytes.h"

namespace spdl {

// For the frame's format and size. The padding between rows is zero: libswscale processes pixels in pairs and reads one
// pixel past an odd row, and a picture must not depend on earlier contents of the memory. Throws Error(kDecode).
void allocate_pixels(AVFrame& frame);

// An ICC profile, as FFmpeg's decoders add it, for filters that ask. Does nothing if it is empty. Throws std::bad_alloc.
void add_profile(AVFrame& frame, Bytes profile);

}  // namespace spdl
