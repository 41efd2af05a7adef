// Converts samples of any format to planar float32 without a filter graph, bit for bit as `aformat=sample_fmts=fltp`.
//
// Stateless functions. Two threads may convert different frames at once.

#pragma once

#include <cstdint>
#include <string>

#include "av/owners.h"

namespace spdl {

// Whether a filter description asks for planar floats, and for nothing else.
bool asks_for_planar_floats(const std::string& description) noexcept;

// Returns the frame itself if it has that format. A new frame gets the properties that filters keep. For u8, s16, s32,
// flt, dbl, packed and planar (`can_be_planar_floats`).
bool can_be_planar_floats(const AVFrame& frame) noexcept;
av::FramePtr to_planar_floats(av::FramePtr frame);
// The same into the caller's memory, one address for each channel.
void write_planar_floats(const AVFrame& frame, std::uint8_t* const* channels) noexcept;

}  // namespace spdl
