#include "media/frames.h"

extern "C" {
#include <libavutil/mathematics.h>
}

#include "av/compat.h"
#include "base/time_window.h"

namespace spdl {

namespace {

Frames without_frames(const Frames& like) {
  Frames copy;
  copy.type = like.type;
  copy.source = like.source;
  copy.time_base = like.time_base;
  copy.num_errors = like.num_errors;
  return copy;
}

}  // namespace

Frames Frames::clone() const {
  Frames copy = without_frames(*this);
  copy.frames.reserve(frames.size());
  for (const auto& frame : frames) {
    copy.frames.push_back(av::clone(*frame));
  }
  return copy;
}

Frames Frames::pick(const std::vector<std::size_t>& positions) const {
  Frames picked = without_frames(*this);
  picked.frames.reserve(positions.size());
  for (const std::size_t position : positions) {
    picked.frames.push_back(av::clone(*frames.at(position)));
  }
  return picked;
}

std::size_t Frames::num_frames() const noexcept {
  if (type != MediaType::kAudio) {
    return frames.size();
  }
  std::size_t count = 0;
  for (const auto& frame : frames) {
    count += static_cast<std::size_t>(frame->nb_samples);
  }
  return count;
}

std::optional<double> seconds_of(const AVFrame& frame, AVRational time_base) noexcept {
  if (frame.pts == AV_NOPTS_VALUE) {
    return std::nullopt;
  }
  return to_seconds(frame.pts, time_base.num, time_base.den);
}

std::int64_t end_of(const AVFrame& frame, AVRational time_base, AVRational frame_rate) noexcept {
  if (frame.pts == AV_NOPTS_VALUE || time_base.num <= 0) {
    return AV_NOPTS_VALUE;
  }
  if (frame.nb_samples > 0 && frame.sample_rate > 0) {
    return frame.pts + av_rescale_q(frame.nb_samples, {1, frame.sample_rate}, time_base);
  }
  const std::int64_t duration = av::frame_duration(frame);
  if (duration > 0) {
    return frame.pts + duration;
  }
  return frame_rate.num > 0 ? frame.pts + av_rescale_q(1, av_inv_q(frame_rate), time_base) : AV_NOPTS_VALUE;
}

}  // namespace spdl
