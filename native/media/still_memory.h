// Allocates memory for a picture that is assembled or decoded here.

#pragma once

#include "av/owners.h"

namespace spdl {

// For the frame's format and size. The padding between rows is zero: libswscale processes pixels in pairs and reads one
// pixel past an odd row, and a picture must not depend on earlier contents of the memory. Throws Error(kDecode).
void allocate_pixels(AVFrame& frame);

}  // namespace spdl
