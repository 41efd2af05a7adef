// libav's names for its enumerations, and back.

#pragma once

extern "C" {
#include <libavcodec/codec_par.h>
#include <libavutil/channel_layout.h>
#include <libavutil/pixfmt.h>
#include <libavutil/samplefmt.h>
}

#include <bit>
#include <string>

#include "base/error.h"

namespace spdl::av {

// Whether an enumeration of C with that largest value can hold the number. In C++, a value with more bits is undefined behaviour.
// Values that a later version of FFmpeg adds mostly fit.
template <auto kLargest>
constexpr bool can_hold(int number) noexcept {
  return number >= 0 && static_cast<unsigned>(number) < std::bit_ceil(static_cast<unsigned>(kLargest) + 1);
}

// The value of the enumeration, or its NONE for a number that it cannot hold.
AVPixelFormat pixel_format_of(int number) noexcept;
AVSampleFormat sample_format_of(int number) noexcept;

// "none" for the formats that have no name.
std::string pixel_format_name(int format);
std::string sample_format_name(int format);

// A channel layout as filter descriptions take it: its mask, "0x3", if each channel has a position; "2c" if only their
// number is known; else FFmpeg's description of it.
std::string channel_layout_spec(const AVChannelLayout& layout);

// Throws an Error of `kind` for a name that FFmpeg does not know.
AVPixelFormat parse_pixel_format(const std::string& name, ErrorKind kind, const char* action);
AVSampleFormat parse_sample_format(const std::string& name, ErrorKind kind, const char* action);

}  // namespace spdl::av
