// Gray and RGB of 9 to 16 bits, rounded to 8: `level * 255 / most` to the nearest, as NumPy's rint and libpng's scaling do.
//
// libswscale truncates and dithers: its results are up to two levels off, and depend on the place in the picture.
// Plain functions, thread-safe.

#pragma once

#include <optional>
#include <string>

#include "av/owners.h"

namespace spdl {

// Whether the filter only converts to a pixel format of 8 bits.
bool wants_8_bits(const std::optional<std::string>& filter);

// The frame as gray or RGB of 8 bits, with its alpha if it has one; the given frame if it is of another kind.
av::FramePtr with_8_bits(av::FramePtr frame);

}  // namespace spdl
