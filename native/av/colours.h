// What a frame says about its colours, as far as this FFmpeg knows it.

#pragma once

extern "C" {
#include <libavutil/frame.h>
}

namespace spdl::av {

// Damaged files, and those of tomorrow, name matrices and ranges by numbers that the enumerations do not have, and FFmpeg
// hands them on. They become "unspecified", which is what FFmpeg takes them for; in C++ they may not even be read.
void forget_unknown_colours(AVFrame& frame) noexcept;

}  // namespace spdl::av
