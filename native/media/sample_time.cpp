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

void SampleWindow::place(AVFrame& frame, int frame_size) noexcept {
  if (unit_.num == 0) {
    unit_ = {1, frame.sample_rate};
  }
  frame_size_ = std::max(frame_size_, frame_size);
  frame.pts = frame.pts == AV_NOPTS_VALUE ? next_ : av_rescale_q(position_of(frame), {1, frame.sample_rate}, unit_);
  next_ = frame.pts + av_rescale_q(frame.nb_samples, {1, frame.sample_rate}, unit_);
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
