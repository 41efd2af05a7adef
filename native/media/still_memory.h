// Memory for a picture that is put together or decoded here.

#pragma once

#include "av/owners.h"

namespace spdl {

// For the frame's format and size. What lies between its rows is zero: libswscale, which takes pixels in pairs, reads one more than
// an odd row has, and a picture must not depend on what the memory held before. Throws Error(kDecode).
void allocate_pixels(AVFrame& frame);

}  // namespace spdl
