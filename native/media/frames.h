// Decoded pictures or samples of one stream: the input of filters, conversion and encoders.
//
// Owns its frames; their planes are shared between clones and slices (libav counts the references) and, once here, never
// written to. One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "media/media_type.h"

namespace spdl {

struct Frames {
  MediaType type = MediaType::kVideo;
  std::string source;  // for messages, as in Packets
  AVRational time_base{0, 1};
  std::vector<av::FramePtr> frames;
  int num_errors = 0;  // packets that a tolerant decoder refused

  Frames clone() const;
  // The frames at these positions, in that order; they share the data. For pictures.
  Frames pick(const std::vector<std::size_t>& positions) const;
  // Samples per channel, or pictures.
  std::size_t num_frames() const noexcept;
};

// Presentation time in seconds; none without one.
std::optional<double> seconds_of(const AVFrame& frame, AVRational time_base) noexcept;

// The end time in ticks; for a picture without a duration, from the frame rate. AV_NOPTS_VALUE if unknown.
std::int64_t end_of(const AVFrame& frame, AVRational time_base, AVRational frame_rate) noexcept;

}  // namespace spdl
