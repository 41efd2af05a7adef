// When samples are played, and which of them are in a window.
//
// Times of samples are multiples of 1 / sample rate, called positions: sample k of a stream that starts at 0 is played at
// k / sample rate. Positions are exact even if the container's time stamps are rounded, such as to the milliseconds of Matroska
// and FLV.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "av/owners.h"
#include "base/time_window.h"
#include "media/codec.h"
#include "media/packets.h"

namespace spdl {

// Positions inside the window, [first, end).
struct SampleSpan {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
SampleSpan samples_in(TimeWindow window, int sample_rate) noexcept;
// The same where the first sample is at that many samples of another rate.
SampleSpan samples_in(TimeWindow window, int sample_rate, std::int64_t zero, int zero_rate) noexcept;

// Gives decoded frames their positions, and cuts frames to a window, before and after filters. One thread per object.
class SampleWindow {
 public:
  explicit SampleWindow(const Codec& codec) noexcept
      : time_base_(codec.time_base), padding_(codec.parameters->initial_padding) {}

  // To be called before the first frame.
  void set(const Packets& packets) noexcept;
  const std::optional<TimeWindow>& window() const noexcept { return window_; }
  // The time base of the time stamps that `place` sets: 1 / sample rate of the first frame.
  AVRational unit() const noexcept { return unit_; }

  // Sets the time stamp of a decoded frame to its position, and cuts it off where the sound ends; null if it is behind that.
  // `frame_size`: the number of samples in each packet, or 0 if it varies. It serves to undo the rounding of the container's
  // time stamps.
  av::FramePtr place(av::FramePtr frame, int frame_size);
  // The part of a placed frame to pass to the filter with that description. A resampler gives the same samples as for the whole
  // stream if its first input sample has the time of an output sample.
  av::FramePtr align(av::FramePtr frame, const std::string& filter);
  // The part of a frame that is in the window, or null. The frame's time stamp is in `time_base`.
  av::FramePtr keep(av::FramePtr frame, AVRational time_base);
  // Whether a placed frame and all that follow it are after the window.
  bool is_behind(const AVFrame& frame) const noexcept;

 private:
  std::int64_t rounded(std::int64_t pts, int sample_rate) const noexcept;
  // Position 0 of the clock of the window, in positions of the container's clock.
  std::int64_t zero(int sample_rate) const noexcept;
  std::int64_t first_index(const AVFrame& frame) const noexcept;
  std::int64_t position_of(const AVFrame& frame) const noexcept;

  AVRational time_base_;
  std::int64_t padding_;  // samples that the encoder put before the first one
  std::optional<TimeWindow> window_;
  std::int64_t start_ = 0;
  SoundBounds sound_;
  SoundClock clock_ = SoundClock::kStream;
  std::int64_t packet_pts_ = AV_NOPTS_VALUE;  // of the first packet
  int packet_size_ = 0;                       // in samples; 0 if unknown
  AVRational unit_{0, 1};
  int frame_size_ = 0;
  std::int64_t next_ = 0;  // where the last frame ended, in unit_
  std::optional<std::int64_t> first_;  // sample that the filter gets, in unit_
};

}  // namespace spdl
