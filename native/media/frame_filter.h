// Filters the frames of a decoder for users: by nothing, by a filter graph, or, where that gives the same bits at less
// cost, by libswscale alone or a conversion of samples. One thread per object.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "media/chain_filter.h"
#include "media/scaler.h"

namespace spdl {

class FrameFilter {
 public:
  // `description`: of one input and one output; none: frames stay as they are.
  FrameFilter(ChainInput input, std::optional<std::string> description, std::string source);

  // Passes in a frame (null: the end) and appends the output. Throws Error(kFilter).
  void filter(av::FramePtr frame, std::vector<av::FramePtr>& out);

  // Whether each frame is processed alone, without FFmpeg's filters.
  bool is_plain() const noexcept { return !description_ || wants_planar_floats_; }
  // For sound, before the first frame: sets the time base of the input frames and the window of their packets.
  void set_sound(AVRational time_base, const std::optional<TimeWindow>& window) noexcept {
    input_.time_base = time_base;
    input_.window = window;
  }
  const std::optional<std::string>& description() const noexcept { return description_; }

  // Sets the source that messages name from now on.
  void set_source(std::string source) { source_ = std::move(source); }

  // Of the output frames.
  AVRational time_base() const noexcept;

 private:
  ChainInput input_;
  std::optional<std::string> description_;
  std::string source_;
  std::optional<Scaler> scaler_;
  bool wants_planar_floats_ = false;
  std::optional<ChainFilter> chain_;
};

}  // namespace spdl
