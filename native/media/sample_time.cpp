#include "media/sample_time.h"

extern "C" {
#include <libavutil/mathematics.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <charconv>
#include <limits>
#include <new>
#include <numeric>
#include <string_view>

namespace spdl {
namespace {

// The part of a frame, which begins at `position`, that the span holds; null for none. Sets the position as time stamp.
av::FramePtr part_of(av::FramePtr frame, std::int64_t position, SampleSpan span) {
  const std::int64_t first = std::max(span.first, position);
  const std::int64_t end = std::min(span.end, position + frame->nb_samples);
  if (first >= end) {
    return nullptr;
  }
  if (first == position && end == position + frame->nb_samples) {
    frame->pts = position;
    return frame;
  }
  // A copy, as filters and encoders want their data aligned.
  av::FramePtr part = av::new_frame();
  if (av_frame_copy_props(part.get(), frame.get()) < 0 ||
      av_channel_layout_copy(&part->ch_layout, &frame->ch_layout) < 0) {
    throw std::bad_alloc();
  }
  part->format = frame->format;
  part->sample_rate = frame->sample_rate;
  part->nb_samples = static_cast<int>(end - first);
  if (av_frame_get_buffer(part.get(), 0) < 0) {
    throw std::bad_alloc();
  }
  part->pts = first;
  av_samples_copy(part->extended_data, frame->extended_data, 0, static_cast<int>(first - position), part->nb_samples,
                  frame->ch_layout.nb_channels, static_cast<AVSampleFormat>(frame->format));
  return part;
}

// The rate to which a chain resamples, as `get_audio_filter_desc` writes it; none elsewhere.
std::optional<int> rate_after(std::string_view filter) noexcept {
  constexpr std::string_view kStep = "aresample=";
  const std::size_t at = filter.find(kStep);
  int rate = 0;
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const char* number = filter.data() + at + kStep.size();
  std::from_chars(number, filter.data() + filter.size(), rate);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

}  // namespace

SampleSpan samples_in(TimeWindow window, int sample_rate) noexcept {
  return {first_sample_from(window.start, sample_rate), first_sample_from(window.end, sample_rate)};
}

namespace {

std::int64_t first_index_from(double seconds, int sample_rate, std::int64_t zero, int zero_rate) noexcept {
  // Times are multiples of 1 / (rate * zero_rate), which doubles hold well enough to round to the nearest one.
  const double unit = static_cast<double>(sample_rate) * zero_rate;
  const auto time_of = [&](std::int64_t index) {
    return (static_cast<double>(zero) * sample_rate + static_cast<double>(index) * zero_rate) / unit;
  };
  std::int64_t index = first_sample_from(seconds - static_cast<double>(zero) / zero_rate, sample_rate);
  constexpr int kMostSteps = 2;
  for (int i = 0; i < kMostSteps && time_of(index - 1) >= seconds; ++i) {
    --index;
  }
  for (int i = 0; i < kMostSteps && time_of(index) < seconds; ++i) {
    ++index;
  }
  return index;
}

}  // namespace

SampleSpan samples_in(TimeWindow window, int sample_rate, std::int64_t zero, int zero_rate) noexcept {
  if (zero == 0 || zero_rate <= 0) {
    return samples_in(window, sample_rate);
  }
  return {first_index_from(window.start, sample_rate, zero, zero_rate),
          first_index_from(window.end, sample_rate, zero, zero_rate)};
}

std::int64_t SampleWindow::rounded(std::int64_t pts, int sample_rate) const noexcept {
  return av_rescale_q(pts, time_base_, {1, sample_rate});
}

// Packets of one length lie one behind the other from the first on, which as a rule begins with the encoder's padding. What a
// decoder leaves out of the first one and the last one leaves one of the ends where it was.
std::int64_t SampleWindow::position_of(const AVFrame& frame) const noexcept {
  const std::int64_t position = rounded(frame.pts, frame.sample_rate);
  const AVRational tick = av_mul_q(time_base_, {frame.sample_rate, 1});  // in samples
  if (frame_size_ <= 0 || frame.sample_rate != unit_.den || (tick.num == 1 && tick.den == 1)) {
    return position;
  }
  const std::int64_t most = std::max<std::int64_t>(tick.num / tick.den, 1);
  const std::int64_t start = rounded(start_, frame.sample_rate);
  const std::int64_t first = start < 0 && std::abs(start + padding_) <= most ? -padding_ : start;
  for (const std::int64_t edge : {std::int64_t{0}, std::int64_t{frame.nb_samples}}) {
    const std::int64_t on_grid = first + av_rescale(position + edge - first, 1, frame_size_) * frame_size_ - edge;
    if (std::abs(on_grid - position) <= most) {
      return on_grid;
    }
  }
  return position;
}

void SampleWindow::set(const Packets& packets) noexcept {
  window_ = packets.window;
  start_ = packets.start;
  sound_ = packets.sound;
  clock_ = packets.clock;
  if (!packets.packets.empty() && packets.codec) {
    packet_pts_ = packets.packets.front()->pts;
    packet_size_ = num_samples_in(*packets.packets.front(), *packets.codec->parameters).value_or(0);
  }
}

std::int64_t SampleWindow::zero(int sample_rate) const noexcept { return start_position(sound_, time_base_, sample_rate); }

// The number of samples of the sound before the first frame.
std::int64_t SampleWindow::first_index(const AVFrame& frame) const noexcept {
  if (sound_.begins_stream || sound_.rate <= 0) {
    return 0;
  }
  // Some decoders return nothing for the first packets.
  std::int64_t passed = frame.pts != AV_NOPTS_VALUE && packet_pts_ != AV_NOPTS_VALUE
                            ? rounded(frame.pts - packet_pts_, sound_.rate)
                            : 0;
  if (packet_size_ > 0) {
    passed = av_rescale(passed, 1, packet_size_) * packet_size_;
  }
  return av_rescale(sound_.first_index + passed - sound_.delay, frame.sample_rate, sound_.rate);
}

av::FramePtr SampleWindow::place(av::FramePtr frame, int frame_size) {
  const bool is_first = unit_.num == 0;
  if (is_first) {
    unit_ = {1, frame->sample_rate};
  }
  frame_size_ = std::max(frame_size_, frame_size);
  const AVRational sample{1, frame->sample_rate};
  const std::int64_t num_samples = av_rescale_q(frame->nb_samples, sample, unit_);
  std::optional<std::int64_t> time;  // by the container's clock
  if (frame->pts != AV_NOPTS_VALUE) {
    time = av_rescale_q(position_of(*frame), sample, unit_);
  }
  std::int64_t position = next_;
  if (clock_ == SoundClock::kStream || sound_.is_timed) {
    position = time ? *time - (clock_ == SoundClock::kStream ? 0 : zero(unit_.den)) : next_;
  } else if (is_first) {
    position = first_index(*frame);
  }
  next_ = position + num_samples;
  if (!sound_.length || (!time && !sound_.is_counted)) {
    frame->pts = position;
    return frame;
  }
  // Where it is not counted, it ends at a time, and not behind a number of samples.
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const std::int64_t start = sound_.is_counted && clock_ == SoundClock::kFirstSample ? 0 : zero(unit_.den);
  const std::int64_t here = sound_.is_counted ? position : *time;
  const std::int64_t left = start + std::min(rounded(*sound_.length, unit_.den), kMost) - std::clamp(here, -kMost, kMost);
  next_ = position + std::clamp<std::int64_t>(left, 0, num_samples);
  return part_of(std::move(frame), position, {std::numeric_limits<std::int64_t>::min(), position + left});
}

av::FramePtr SampleWindow::align(av::FramePtr frame, const std::string& filter) {
  if (!first_) {
    first_ = frame->pts;
    if (const std::optional<int> rate = rate_after(filter); rate && window_) {
      const std::int64_t step = unit_.den / std::gcd(unit_.den, *rate);
      const std::int64_t origin = std::max<std::int64_t>(rounded(start_, unit_.den), 0);
      const std::int64_t aligned = frame->pts + ((origin - frame->pts) % step + step) % step;
      // Only where it costs nothing of the window, nor of what the resampler looks at before it.
      if (aligned + unit_.den / 50 <= samples_in(*window_, unit_.den).first) {
        first_ = aligned;
      }
    }
  }
  const std::int64_t position = frame->pts;
  return part_of(std::move(frame), position, {*first_, std::numeric_limits<std::int64_t>::max()});
}

av::FramePtr SampleWindow::keep(av::FramePtr frame, AVRational time_base) {
  const AVRational sample{1, frame->sample_rate};
  const std::int64_t position = frame->pts == AV_NOPTS_VALUE ? 0 : av_rescale_q(frame->pts, time_base, sample);
  if (!window_) {
    return frame;
  }
  const SampleSpan span = samples_in(*window_, frame->sample_rate);
  av::FramePtr part = part_of(std::move(frame), position, span);
  if (part != nullptr) {
    part->pts = av_rescale_q(part->pts, sample, time_base);
  }
  return part;
}

bool SampleWindow::is_behind(const AVFrame& frame) const noexcept {
  return window_ && frame.pts >= samples_in(*window_, unit_.den).end;
}

}  // namespace spdl
