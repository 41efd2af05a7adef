// Decoded pictures or samples of one stream: what filters, conversion and encoders take.
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
  // Those at these positions, in that order; they share the data. For pictures.
  Frames pick(const std::vector<std::size_t>& positions) const;
  // Samples per channel, or pictures.
  std::size_t num_frames() const noexcept;
};

// Presentation time in seconds, where there is one.
std::optional<double> seconds_of(const AVFrame& frame, AVRational time_base) noexcept;

// When it ends, in ticks; of a picture that does not say how long it lasts, by the frame rate. AV_NOPTS_VALUE: unknown.
std::int64_t end_of(const AVFrame& frame, AVRational time_base, AVRational frame_rate) noexcept;

}  // namespace spdl
