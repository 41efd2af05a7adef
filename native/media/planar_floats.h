// Samples of any format as planar float32, without a filter graph: what `aformat=sample_fmts=fltp` does, bit for bit.
//
// Functions; nothing is kept. Two threads may convert different frames at once.

#pragma once

#include <cstdint>
#include <string>

#include "av/owners.h"

namespace spdl {

// Whether a filter description asks for planar floats, and for nothing else.
bool asks_for_planar_floats(const std::string& description) noexcept;

// The frame itself, if it is of that format. Of its properties, the new one has those that filters keep.
// For u8, s16, s32, flt, dbl, packed and planar (`can_be_planar_floats`).
bool can_be_planar_floats(const AVFrame& frame) noexcept;
av::FramePtr to_planar_floats(av::FramePtr frame);
// The same into memory of the caller's, one address for each channel.
void write_planar_floats(const AVFrame& frame, std::uint8_t* const* channels) noexcept;

}  // namespace spdl
