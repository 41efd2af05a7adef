// Where samples are in time, and which of them a window holds.
//
// A sample of a stream is at a whole number of 1 / sample rate, its position: sample k of a stream that begins at 0 is at
// k / sample rate. That is exact also where the container counts in longer units, such as the milliseconds of Matroska and FLV.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "av/owners.h"
#include "base/time_window.h"
#include "media/codec.h"

namespace spdl {

// Positions inside the window, [first, end).
struct SampleSpan {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
SampleSpan samples_in(TimeWindow window, int sample_rate) noexcept;

// Decoded samples in time, and those of a window, before and behind filters. One thread per object.
class SampleWindow {
 public:
  explicit SampleWindow(const Codec& codec) noexcept
      : time_base_(codec.time_base), padding_(codec.parameters->initial_padding) {}

  // Of the packets, before the first frame. `start`: when their stream begins, in their time base.
  void set(const std::optional<TimeWindow>& window, std::int64_t start) noexcept {
    window_ = window;
    start_ = start;
  }
  const std::optional<TimeWindow>& window() const noexcept { return window_; }
  // What the time stamps count in that `place` writes: samples of the first frame.
  AVRational unit() const noexcept { return unit_; }

  // Gives a frame of the decoder its position as time stamp. `frame_size`: how many samples each packet has, where all have
  // the same number; 0 elsewhere. Where a container rounds time stamps, that tells what they were before.
  void place(AVFrame& frame, int frame_size) noexcept;
  // Of a frame that was placed and goes to a filter with that description: what it should get. A resampler gives the
  // same samples as for the whole stream if it begins at one with which a sample of the output coincides.
  av::FramePtr align(av::FramePtr frame, const std::string& filter);
  // Of a frame with time stamps in `time_base`: what the window holds; null for nothing.
  av::FramePtr keep(av::FramePtr frame, AVRational time_base);
  // Whether nothing of a frame that was placed, and of those after it, is inside.
  bool is_behind(const AVFrame& frame) const noexcept;

 private:
  std::int64_t rounded(std::int64_t pts, int sample_rate) const noexcept;
  std::int64_t position_of(const AVFrame& frame) const noexcept;

  AVRational time_base_;
  std::int64_t padding_;  // that the encoder put in front, in samples
  std::optional<TimeWindow> window_;
  std::int64_t start_ = 0;
  AVRational unit_{0, 1};
  int frame_size_ = 0;
  std::int64_t next_ = 0;  // where the last frame ended, in unit_
  std::optional<std::int64_t> first_;  // that a filter gets, in unit_
};

}  // namespace spdl
