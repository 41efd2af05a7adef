// What the frames of a decoder go through before users get them: nothing, a filter graph, or, where that gives the same
// bits for less, libswscale alone or a conversion of samples. One thread per object.

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

  // Gives a frame (null: the end) and appends what comes out. Throws Error(kFilter).
  void filter(av::FramePtr frame, std::vector<av::FramePtr>& out);

  // Whether each frame is treated alone, and not by filters of FFmpeg.
  bool is_plain() const noexcept { return !description_ || wants_planar_floats_; }
  // What the frames of sound that come count in, and the window of their packets. Before the first one.
  void set_sound(AVRational time_base, const std::optional<TimeWindow>& window) noexcept {
    input_.time_base = time_base;
    input_.window = window;
  }
  const std::optional<std::string>& description() const noexcept { return description_; }

  // What messages say from now on.
  void set_source(std::string source) { source_ = std::move(source); }

  // Of what comes out.
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
