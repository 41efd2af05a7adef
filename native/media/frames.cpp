#include "media/frames.h"

namespace spdl {

Frames Frames::clone() const {
  Frames copy;
  copy.type = type;
  copy.source = source;
  copy.time_base = time_base;
  copy.num_errors = num_errors;
  copy.frames.reserve(frames.size());
  for (const auto& frame : frames) {
    copy.frames.push_back(av::clone(*frame));
  }
  return copy;
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

}  // namespace spdl
