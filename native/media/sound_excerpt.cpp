#include "media/sound_excerpt.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/mathematics.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "av/check.h"

namespace spdl {
namespace {

constexpr const char* kAction = "resample";
constexpr int kMostDecimation = 256;
// What is allocated at once before a sample has come.
constexpr std::size_t kMostAtFirst = std::size_t{1} << 28;

}  // namespace

// 32 taps of libswresample's default filter, more of them where the rate falls (libswresample/resample.c), and some for
// rounding.
std::int64_t reach_of(int in_rate, int out_rate) noexcept {
  return in_rate == out_rate ? 0 : 16 * (static_cast<std::int64_t>(in_rate) / out_rate + 1) + 16;
}

void SoundExcerpt::ChannelLayout::copy(const AVChannelLayout& from) {
  if (av_channel_layout_copy(&layout_, &from) < 0) {
    throw std::bad_alloc();
  }
}

void SoundExcerpt::ChannelLayout::make(int num_channels) {
  av_channel_layout_uninit(&layout_);
  av_channel_layout_default(&layout_, num_channels);
}

SoundExcerpt::SoundExcerpt(const SoundRequest& request, std::function<SampleSpan(int)> span_of)
    : request_(request), span_of_(std::move(span_of)) {}

void SoundExcerpt::set_stream(std::string source, bool is_gapless) {
  source_ = std::move(source);
  is_gapless_ = is_gapless;
}

bool SoundExcerpt::put(const AVFrame& frame) {
  // A file may state any times.
  const std::int64_t position = std::clamp(frame.pts, -kFar, kFar);
  std::int64_t from = 0;
  if (resampler_.get() == nullptr) {
    if (!begin(frame, position, from)) {
      return true;
    }
  } else if (has_changed(frame)) {
    drain();
    open(frame);
  } else if (is_gapless_) {
    from = close_gap(position);
  }
  if (from < frame.nb_samples && !is_complete()) {
    feed(frame, static_cast<int>(from), frame.nb_samples - static_cast<int>(from));
  }
  // A frame may lie before the end of the one before it. What follows still has its own time.
  next_in_ = std::max(next_in_, position + av_rescale(frame.nb_samples, unit_rate_, frame.sample_rate));
  return !is_complete();
}

void SoundExcerpt::finish() {
  if (resampler_.get() != nullptr && !is_complete()) {
    drain();
  }
}

Sound SoundExcerpt::take() && {
  Sound sound;
  sound.stride = room_ * sample_size();
  sound.num_channels = out_layout_.size();
  sound.sample_rate = out_rate_;
  sound.num_samples = sound.num_valid = count_;
  sound.first = first_kept_;
  sound.memory = std::move(memory_);
  return sound;
}

std::size_t SoundExcerpt::sample_size() const noexcept {
  return static_cast<std::size_t>(av_get_bytes_per_sample(request_.format));
}

// Where to start in the first frame; false if that is behind it.
bool SoundExcerpt::begin(const AVFrame& frame, std::int64_t position, std::int64_t& from) {
  out_rate_ = request_.sample_rate > 0 ? request_.sample_rate : frame.sample_rate;
  span_ = span_of_(out_rate_);
  const int in_rate = frame.sample_rate;
  std::int64_t start = position;
  if (in_rate == out_rate_) {
    start = std::max(start, span_.first);
  } else {
    // Exact places are multiples of `step`; the last one from which all that is wanted is exact.
    const std::int64_t step = in_rate / std::gcd(in_rate, out_rate_);
    const std::int64_t wanted =
        av_rescale_rnd(span_.first, in_rate, out_rate_, AV_ROUND_DOWN) - reach_of(in_rate, out_rate_);
    const std::int64_t ahead = wanted % step;
    const std::int64_t aligned = wanted - (ahead < 0 ? ahead + step : ahead);
    start = std::max(start, aligned);
  }
  from = start - position;
  if (from >= frame.nb_samples) {
    return false;
  }
  next_out_ = av_rescale(start, out_rate_, in_rate);
  unit_rate_ = in_rate;
  next_in_ = position;
  open(frame);
  return true;
}

bool SoundExcerpt::has_changed(const AVFrame& frame) noexcept {
  return frame.sample_rate != in_rate_ || frame.format != in_format_ ||
         av_channel_layout_compare(&frame.ch_layout, &in_layout_.get()) != 0;
}

void SoundExcerpt::open(const AVFrame& frame) {
  // The filter grows with the ratio, and a header may state any rate.
  if (frame.sample_rate < 1 || frame.sample_rate / kMostDecimation > out_rate_) {
    throw Error(ErrorKind::kFilter, kAction,
                "from " + std::to_string(frame.sample_rate) + " Hz to " + std::to_string(out_rate_) +
                    " Hz: the rate may fall to a " + std::to_string(kMostDecimation) + "th at most")
        .in(source_);
  }
  in_rate_ = frame.sample_rate;
  in_format_ = frame.format;
  in_layout_.copy(frame.ch_layout);
  if (out_layout_.size() == 0) {
    if (request_.num_channels == 0 || request_.num_channels == frame.ch_layout.nb_channels) {
      out_layout_.copy(frame.ch_layout);
    } else {
      out_layout_.make(request_.num_channels);
    }
    rows_.resize(static_cast<std::size_t>(out_layout_.size()));
    const std::int64_t expected = span_.end == kForever ? 0 : span_.end - std::max(span_.first, next_out_);
    const std::size_t most = kMostAtFirst / (rows_.size() * sample_size());
    reserve(std::min(static_cast<std::size_t>(std::max<std::int64_t>(expected, 0)) + 1024, most));
  }
  const int code = resampler_.start({in_layout_.get(), static_cast<AVSampleFormat>(in_format_), in_rate_},
                                    {out_layout_.get(), request_.format, out_rate_});
  if (code < 0) {
    throw av::make_error(ErrorKind::kFilter, code, kAction, source_,
                         "from " + std::to_string(in_rate_) + " Hz with " + std::to_string(in_layout_.size()) +
                             " channels to " + std::to_string(out_rate_) + " Hz with " +
                             std::to_string(out_layout_.size()));
  }
}

// Silence where samples are missing, so that those behind have their time. Returns how many of the frame were there
// already. Rounded time stamps make no gaps.
std::int64_t SoundExcerpt::close_gap(std::int64_t position) {
  const std::int64_t gap = av_rescale(position - next_in_, in_rate_, unit_rate_);
  if (std::abs(gap) <= in_rate_ / 20) {
    return 0;
  }
  if (gap < 0) {
    return -gap;
  }
  av::FramePtr silence = av::new_frame();
  silence->format = in_format_;
  silence->sample_rate = in_rate_;
  silence->nb_samples = 4096;
  if (av_channel_layout_copy(&silence->ch_layout, &in_layout_.get()) < 0 || av_frame_get_buffer(silence.get(), 0) < 0) {
    throw std::bad_alloc();
  }
  av_samples_set_silence(silence->extended_data, 0, silence->nb_samples, in_layout_.size(),
                         static_cast<AVSampleFormat>(in_format_));
  for (std::int64_t left = gap; left > 0 && !is_complete(); left -= silence->nb_samples) {
    if (watch_.is_over()) {
      watch_.throw_if_over(kAction, source_);
    }
    feed(*silence, 0, static_cast<int>(std::min<std::int64_t>(left, silence->nb_samples)));
  }
  return 0;
}

void SoundExcerpt::feed(const AVFrame& frame, int from, int count) {
  const auto format = static_cast<AVSampleFormat>(in_format_);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  const auto num_channels = static_cast<std::size_t>(in_layout_.size());
  const std::size_t offset = static_cast<std::size_t>(from) *
                             static_cast<std::size_t>(av_get_bytes_per_sample(format)) *
                             (is_planar ? 1 : num_channels);
  in_rows_.resize(is_planar ? num_channels : 1);
  for (std::size_t i = 0; i < in_rows_.size(); ++i) {
    in_rows_[i] = frame.extended_data[i] + offset;
  }
  convert(in_rows_.data(), count);
}

void SoundExcerpt::convert(const std::uint8_t** in, int count) {
  const int most = std::max(swr_get_out_samples(resampler_.get(), count), 0) + 64;
  if (static_cast<std::size_t>(most) > room_ - static_cast<std::size_t>(count_)) {
    reserve(2 * room_ + static_cast<std::size_t>(most));
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i] = row(i) + static_cast<std::size_t>(count_) * sample_size();
  }
  const int got = av::check(swr_convert(resampler_.get(), rows_.data(), most, in, count), ErrorKind::kFilter, kAction,
                            source_);
  const std::int64_t from = std::clamp<std::int64_t>(span_.first - next_out_, 0, got);
  const std::int64_t to = std::clamp<std::int64_t>(span_.end == kForever ? got : span_.end - next_out_, from, got);
  if (from > 0 && to > from) {
    for (std::uint8_t* start : rows_) {
      std::memmove(start, start + static_cast<std::size_t>(from) * sample_size(),
                   static_cast<std::size_t>(to - from) * sample_size());
    }
  }
  if (count_ == 0 && to > from) {
    first_kept_ = next_out_ + from;
  }
  count_ += to - from;
  next_out_ += got;
}

void SoundExcerpt::reserve(std::size_t room) {
  const std::size_t row_limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) /
                                (rows_.size() * sample_size());
  if (room > row_limit) {
    throw std::bad_alloc();
  }
  Buffer larger(room * rows_.size() * sample_size());
  for (std::size_t i = 0; i < rows_.size() && count_ > 0; ++i) {
    std::memcpy(larger.data() + i * room * sample_size(), row(i), static_cast<std::size_t>(count_) * sample_size());
  }
  memory_ = std::move(larger);
  room_ = room;
}

}  // namespace spdl
