// Words of libav for its enumerations, and back.

#pragma once

extern "C" {
#include <libavcodec/codec_par.h>
#include <libavutil/channel_layout.h>
#include <libavutil/pixfmt.h>
#include <libavutil/samplefmt.h>
}

#include <string>

#include "base/error.h"

namespace spdl::av {

// "none" for the formats that have no name.
std::string pixel_format_name(int format);
std::string sample_format_name(int format);

// A channel layout as filter descriptions take it: its mask, "0x3", where each channel has its place; "2c" where only
// their number is known; else FFmpeg's description of it.
std::string channel_layout_spec(const AVChannelLayout& layout);

// Throws an Error of `kind` for a name that FFmpeg does not know.
AVPixelFormat parse_pixel_format(const std::string& name, ErrorKind kind, const char* action);
AVSampleFormat parse_sample_format(const std::string& name, ErrorKind kind, const char* action);

}  // namespace spdl::av
