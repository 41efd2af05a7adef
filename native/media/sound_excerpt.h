// Makes the samples of a time span, at the requested rate, number of channels and element type, from decoded frames.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "av/owners.h"
#include "base/buffer.h"
#include "base/watch.h"
#include "media/resampler.h"
#include "media/sample_time.h"
#include "media/sound.h"

namespace spdl {

// Number of input samples on either side of an output sample that the resampler needs.
std::int64_t reach_of(int in_rate, int out_rate) noexcept;

// Takes frames whose time stamps are positions (SampleWindow::place) and keeps a span. One thread per object.
//
// Samples equal those of resampling the whole stream if the first frame begins `reach_of` before the span.
class SoundExcerpt {
 public:
  // Small enough to add and multiply without overflow.
  static constexpr std::int64_t kFar = std::int64_t{1} << 52;
  // The end of a span that goes on until the stream ends.
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  // `span_of(rate)` gives the span at a sample rate.
  SoundExcerpt(const SoundRequest& request, std::function<SampleSpan(int)> span_of);

  // Before the first frame. `is_gapless`: gaps in the stream become silence.
  void set_stream(std::string source, bool is_gapless);
  // False once nothing more is needed. Throws Error (kFilter), std::bad_alloc, Cancelled.
  bool put(const AVFrame& frame);
  // The end of the stream, or of what was read of it.
  void finish();

  SampleSpan span() const noexcept { return span_; }
  std::int64_t count() const noexcept { return count_; }
  // The position of the first sample that was kept.
  std::int64_t first_kept() const noexcept { return first_kept_; }
  Sound take() &&;

 private:
  class ChannelLayout {
   public:
    ChannelLayout() = default;
    ~ChannelLayout() { av_channel_layout_uninit(&layout_); }
    ChannelLayout(const ChannelLayout&) = delete;
    ChannelLayout& operator=(const ChannelLayout&) = delete;

    void copy(const AVChannelLayout& from);
    void make(int num_channels);
    AVChannelLayout& get() noexcept { return layout_; }
    int size() const noexcept { return layout_.nb_channels; }

   private:
    AVChannelLayout layout_{};
  };

  bool is_complete() const noexcept { return resampler_.get() != nullptr && next_out_ >= span_.end; }
  bool begin(const AVFrame& frame, std::int64_t position, std::int64_t& from);
  bool has_changed(const AVFrame& frame) noexcept;
  void open(const AVFrame& frame);
  std::int64_t close_gap(std::int64_t position);
  void feed(const AVFrame& frame, int from, int count);
  void drain() { convert(nullptr, 0); }
  void convert(const std::uint8_t** in, int count);

  std::size_t sample_size() const noexcept;
  std::uint8_t* row(std::size_t channel) noexcept { return memory_.data() + channel * room_ * sample_size(); }
  void reserve(std::size_t room);

  const SoundRequest& request_;
  bool is_gapless_ = false;
  std::function<SampleSpan(int)> span_of_;
  std::string source_;
  Watch watch_;

  int in_rate_ = 0, in_format_ = -1, out_rate_ = 0;
  ChannelLayout in_layout_, out_layout_;
  Resampler resampler_;
  int unit_rate_ = 1;            // unit of input positions: the rate of the first frame
  std::int64_t next_in_ = 0;     // position behind all samples of input
  std::int64_t next_out_ = 0;    // position of the next sample of output
  SampleSpan span_;              // wanted samples, in samples of output
  std::int64_t first_kept_ = 0;  // position of the first kept sample
  std::int64_t count_ = 0;       // number of kept samples
  std::size_t room_ = 0;         // in samples
  Buffer memory_;
  std::vector<std::uint8_t*> rows_;
  std::vector<const std::uint8_t*> in_rows_;
};

}  // namespace spdl
