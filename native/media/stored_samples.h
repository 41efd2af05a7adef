// Frames of samples that no pixel format has: with a sign, floating point of 16 or 64 bits, or any number of channels.
//
// Such a frame has the format AV_PIX_FMT_NONE and one plane of rows without padding, (height, width, channels), in the
// byte order of this machine. Only code that asks `stored_samples` may take it; filters do not. Plain functions.

#pragma once

#include <cstdint>
#include <optional>

#include "av/owners.h"
#include "base/element_type.h"

namespace spdl {

struct StoredSamples {
  ElementType type;
  int num_channels = 0;

  int pixel_bytes() const noexcept { return type.size * num_channels; }

  friend bool operator==(const StoredSamples&, const StoredSamples&) = default;
};

// A frame of that size, whose contents are unspecified. Throws std::bad_alloc; Error(kImageTooLarge) for rows that libav
// cannot count.
av::FramePtr new_stored_samples(const StoredSamples& samples, int width, int height);

// Of a frame of a pixel format in floating point, gray or RGB, with alpha or without: float32 in the order R, G, B, A.
av::FramePtr as_stored_floats(const AVFrame& frame);

// IEEE 754 binary16.
float from_half(std::uint32_t bits) noexcept;

// None for any other frame.
std::optional<StoredSamples> stored_samples(const AVFrame& frame) noexcept;

// Such a frame, turned upright. `orientation`: as in EXIF, from 1 to 8.
av::FramePtr turn_samples(const AVFrame& frame, int orientation);

}  // namespace spdl
