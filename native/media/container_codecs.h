// Which codecs a container format can hold so that its own demuxer can read them back.

#pragma once

#include <string>
#include <vector>

#include "av/owners.h"

namespace spdl {

// Whether the format can hold the codec; true also if that is unknown.
bool can_hold(const AVOutputFormat& format, AVCodecID codec);

// Names of all codecs of that type which the format is known to hold and this FFmpeg can encode.
std::vector<std::string> codecs_held(const AVOutputFormat& format, AVMediaType type);

}  // namespace spdl
