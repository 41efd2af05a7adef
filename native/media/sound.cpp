#include "media/sound.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/mathematics.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "av/check.h"
#include "base/watch.h"
#include "media/decode.h"
#include "media/resampler.h"
#include "media/sample_time.h"

namespace spdl {
namespace {

constexpr const char* kResample = "resample";
constexpr const char* kLoad = "load a window of";
constexpr std::int64_t kFar = std::int64_t{1} << 52;  // samples, within what can be added and multiplied
constexpr int kMostDecimation = 256;
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
// What is allocated at once before a sample has come.
constexpr std::size_t kMostAtFirst = std::size_t{1} << 28;

// Samples of input on either side of a sample of output that libswresample's default filter looks at: 32 taps, more of
// them where the rate falls (libswresample/resample.c), and some for rounding.
std::int64_t reach_of(int in_rate, int out_rate) noexcept {
  return in_rate == out_rate ? 0 : 16 * (static_cast<std::int64_t>(in_rate) / out_rate + 1) + 16;
}

class ChannelLayout {
 public:
  ChannelLayout() = default;
  ~ChannelLayout() { av_channel_layout_uninit(&layout_); }
  ChannelLayout(const ChannelLayout&) = delete;
  ChannelLayout& operator=(const ChannelLayout&) = delete;

  void copy(const AVChannelLayout& from) {
    if (av_channel_layout_copy(&layout_, &from) < 0) {
      throw std::bad_alloc();
    }
  }
  void make(int num_channels) {
    av_channel_layout_uninit(&layout_);
    av_channel_layout_default(&layout_, num_channels);
  }
  AVChannelLayout& get() noexcept { return layout_; }
  int size() const noexcept { return layout_.nb_channels; }

 private:
  AVChannelLayout layout_{};
};

// Takes placed frames and keeps the samples of a span of time. One thread per object.
class Excerpt {
 public:
  // `span_of(rate)` gives the span at a sample rate. `is_gapless`: what is missing in the stream becomes silence.
  Excerpt(const SoundRequest& request, bool is_gapless, std::function<SampleSpan(int)> span_of)
      : request_(request), is_gapless_(is_gapless), span_of_(std::move(span_of)) {}

  // Before the first frame. `origin`: of the stream's first sample, in seconds.
  void set_stream(std::string source, double origin) {
    source_ = std::move(source);
    origin_ = origin;
  }

  // Frames have their positions as time stamps. False once nothing more is needed.
  bool put(const AVFrame& frame) {
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

  // The end of the stream, or of what was read of it.
  void finish() {
    if (resampler_.get() != nullptr && !is_complete()) {
      drain();
    }
  }

  bool is_complete() const noexcept { return resampler_.get() != nullptr && next_out_ >= span_.end; }
  SampleSpan span() const noexcept { return span_; }
  std::int64_t count() const noexcept { return count_; }
  std::int64_t first_kept() const noexcept { return first_kept_; }

  Sound take() && {
    Sound sound;
    sound.stride = room_ * sample_size();
    sound.num_channels = out_layout_.size();
    sound.sample_rate = out_rate_;
    sound.num_samples = sound.num_valid = count_;
    sound.first = first_kept_;
    sound.memory = std::move(memory_);
    return sound;
  }

 private:
  std::size_t sample_size() const noexcept {
    return static_cast<std::size_t>(av_get_bytes_per_sample(request_.format));
  }

  // Where to start in the first frame; false if that is behind it.
  bool begin(const AVFrame& frame, std::int64_t position, std::int64_t& from) {
    out_rate_ = request_.sample_rate > 0 ? request_.sample_rate : frame.sample_rate;
    span_ = span_of_(out_rate_);
    const int in_rate = frame.sample_rate;
    const auto origin = static_cast<std::int64_t>(std::clamp(std::round(origin_ * in_rate), 0.0, double{kFar}));
    std::int64_t start = position;
    if (in_rate == out_rate_) {
      start = std::max(start, span_.first);
    } else {
      // Exact places are multiples of `step` behind the origin; the last one from which all that is wanted is exact.
      const std::int64_t step = in_rate / std::gcd(in_rate, out_rate_);
      const std::int64_t wanted =
          av_rescale_rnd(span_.first, in_rate, out_rate_, AV_ROUND_DOWN) - reach_of(in_rate, out_rate_);
      const std::int64_t ahead = (wanted - origin) % step;
      const std::int64_t aligned = wanted - (ahead < 0 ? ahead + step : ahead);
      start = std::max(start, aligned);
    }
    from = start - position;
    if (from >= frame.nb_samples) {
      return false;
    }
    const std::int64_t out_origin = av_rescale(origin, out_rate_, in_rate);
    next_out_ = out_origin + av_rescale(start - origin, out_rate_, in_rate);
    unit_rate_ = in_rate;
    next_in_ = position;
    open(frame);
    return true;
  }

  bool has_changed(const AVFrame& frame) noexcept {
    return frame.sample_rate != in_rate_ || frame.format != in_format_ ||
           av_channel_layout_compare(&frame.ch_layout, &in_layout_.get()) != 0;
  }

  void open(const AVFrame& frame) {
    // The filter grows with the ratio, and a header may state any rate.
    if (frame.sample_rate < 1 || frame.sample_rate / kMostDecimation > out_rate_) {
      throw Error(ErrorKind::kFilter, kResample,
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
      throw av::make_error(ErrorKind::kFilter, code, kResample, source_,
                           "from " + std::to_string(in_rate_) + " Hz with " + std::to_string(in_layout_.size()) +
                               " channels to " + std::to_string(out_rate_) + " Hz with " +
                               std::to_string(out_layout_.size()));
    }
  }

  // Silence where samples are missing, so that those behind have their time. Returns how many of the frame were there
  // already. Rounded time stamps make no gaps.
  std::int64_t close_gap(std::int64_t position) {
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
        watch_.throw_if_over(kResample, source_);
      }
      feed(*silence, 0, static_cast<int>(std::min<std::int64_t>(left, silence->nb_samples)));
    }
    return 0;
  }

  void feed(const AVFrame& frame, int from, int count) {
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

  void drain() { convert(nullptr, 0); }

  void convert(const std::uint8_t** in, int count) {
    const int most = std::max(swr_get_out_samples(resampler_.get(), count), 0) + 64;
    if (static_cast<std::size_t>(most) > room_ - static_cast<std::size_t>(count_)) {
      reserve(2 * room_ + static_cast<std::size_t>(most));
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i] = row(i) + static_cast<std::size_t>(count_) * sample_size();
    }
    const int got = av::check(swr_convert(resampler_.get(), rows_.data(), most, in, count), ErrorKind::kFilter, kResample,
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

  std::uint8_t* row(std::size_t channel) noexcept { return memory_.data() + channel * room_ * sample_size(); }

  void reserve(std::size_t room) {
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

  const SoundRequest& request_;
  bool is_gapless_;
  std::function<SampleSpan(int)> span_of_;
  double origin_ = 0;
  std::string source_;
  Watch watch_;

  int in_rate_ = 0, in_format_ = -1, out_rate_ = 0;
  ChannelLayout in_layout_, out_layout_;
  Resampler resampler_;
  int unit_rate_ = 1;            // what positions of input count in: the rate of the first frame
  std::int64_t next_in_ = 0;     // position behind all samples of input
  std::int64_t next_out_ = 0;    // position of the next sample of output
  SampleSpan span_;              // that is wanted, in samples of output
  std::int64_t first_kept_ = 0;  // position of the first one that was
  std::int64_t count_ = 0;       // of those that were
  std::size_t room_ = 0;         // in samples
  Buffer memory_;
  std::vector<std::uint8_t*> rows_;
  std::vector<const std::uint8_t*> in_rows_;
};

std::string text_of(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", seconds);
  return text;
}

// The window in seconds that is decoded: with what the resampler looks at, and the place where it starts.
TimeWindow with_reach(TimeWindow wanted, int in_rate, int out_rate) noexcept {
  if (in_rate <= 0 || out_rate <= 0 || in_rate == out_rate) {
    return wanted;
  }
  const double reach = static_cast<double>(reach_of(in_rate, out_rate) + 1) / in_rate;
  return {wanted.start - reach - 1.0 / std::gcd(in_rate, out_rate), wanted.end + reach};
}

// Gives the frames of the stream to the excerpt. `window`: what has to be decoded; none: all.
void decode(Demuxer& demuxer, const SoundRequest& request, int index, std::optional<TimeWindow> window, Excerpt& excerpt) {
  const Packets packets = demuxer.demux(MediaType::kAudio, window, std::nullopt, index, SoundUse::kExactly);
  const Codec& codec = codec_of(packets);
  excerpt.set_stream(packets.source, to_seconds(packets.start, packets.time_base.num, packets.time_base.den));
  DecodeConfig config = request.decode;
  if (packets.is_checked && !config.decoder) {
    config.options.try_emplace("err_detect", "explode");  // as by default, but without checksums
  }
  WindowDecoder decoder(codec, config, packets.source, packets.stream_index);
  SampleWindow places(codec);
  places.set(std::nullopt, packets.start);
  Watch watch;
  const auto take = [&](av::FramePtr frame) {
    places.place(*frame, decoder.frame_size(*frame));
    return excerpt.put(*frame);
  };
  bool wants_more = true;
  for (const auto& packet : packets.packets) {
    if (watch.is_over()) {
      watch.throw_if_over("decode", packets.source);
    }
    wants_more = decoder.decode(packet.get(), std::nullopt, take);
    if (!wants_more) {
      break;
    }
  }
  if (wants_more) {
    decoder.decode(nullptr, std::nullopt, take);
    excerpt.finish();
  }
}

// Exactly `num_samples`, each at its time: silence where the stream has none.
Sound padded_to(Sound sound, std::int64_t num_samples, std::int64_t silence_before, AVSampleFormat format) {
  const auto size = static_cast<std::size_t>(av_get_bytes_per_sample(format));
  const auto rows = static_cast<std::size_t>(sound.num_channels);
  const auto wanted = static_cast<std::size_t>(num_samples);
  if (wanted > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / (rows * size)) {
    throw std::bad_alloc();
  }
  const auto before = static_cast<std::size_t>(silence_before);
  const std::size_t kept = std::min(static_cast<std::size_t>(sound.num_samples), wanted - before);
  Buffer memory(std::max<std::size_t>(rows * wanted * size, 1));
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint8_t* row = memory.data() + i * wanted * size;
    // Silence is zero in all types but unsigned ones, which are none of ours.
    std::memset(row, 0, before * size);
    std::memcpy(row + before * size, sound.memory.data() + i * sound.stride, kept * size);
    std::memset(row + (before + kept) * size, 0, (wanted - before - kept) * size);
  }
  sound.memory = std::move(memory);
  sound.stride = wanted * size;
  sound.num_samples = num_samples;
  sound.num_valid = static_cast<std::int64_t>(kept);
  sound.silence_before = silence_before;
  sound.first -= silence_before;
  return sound;
}

[[noreturn]] void throw_empty(Demuxer& demuxer, int index, std::optional<TimeWindow> window) {
  std::string reason = "there are no samples";
  if (window) {
    reason += " in [" + text_of(window->start) + ", " + text_of(window->end) + ") seconds";
    if (const auto extent = demuxer.extent(MediaType::kAudio, index)) {
      reason += "; the audio stream goes from " + text_of(extent->start) + " to " + text_of(extent->end);
    }
  }
  throw Error(ErrorKind::kConvert, std::string(kLoad) + " audio", reason).in(demuxer.name());
}

// The samples of a window; `num_samples` of them, from its start on, if that is given.
Sound load_window(Demuxer& demuxer, const SoundRequest& request, int index, std::optional<TimeWindow> window) {
  const std::optional<std::int64_t> num_samples = request.num_samples;
  const int in_rate = demuxer.sample_rate(index);
  std::optional<TimeWindow> read;
  if (window) {
    read = with_reach(*window, in_rate, request.sample_rate);
  }
  const auto span_of = [&](int rate) {
    SampleSpan span{-kFar, kForever};
    if (window) {
      span = samples_in(*window, rate);
    }
    if (window && num_samples) {
      span.end = std::min(span.end, span.first + *num_samples);
    }
    return span;
  };
  Excerpt excerpt(request, window.has_value(), span_of);
  decode(demuxer, request, index, read, excerpt);
  if (excerpt.count() == 0) {
    throw_empty(demuxer, index, window);
  }
  const std::int64_t first = window ? excerpt.span().first : excerpt.first_kept();
  const std::int64_t silence = num_samples ? std::clamp<std::int64_t>(excerpt.first_kept() - first, 0, *num_samples) : 0;
  Sound sound = std::move(excerpt).take();
  return num_samples ? padded_to(std::move(sound), *num_samples, silence, request.format) : std::move(sound);
}

TimeWindow window_from(double start, std::int64_t num_samples, int rate) noexcept {
  // Not one sample less for rounding; the number of samples is what counts.
  return {start, start + (static_cast<double>(num_samples) + 1) / rate};
}

// The place in the middle of which `share` points among those where `num_samples` fit.
double start_at(double share, TimeWindow extent, std::int64_t num_samples, int rate) noexcept {
  const std::int64_t first = first_sample_from(extent.start, rate);
  const std::int64_t places = first_sample_from(extent.end, rate) - first - num_samples + 1;
  const std::int64_t chosen =
      places > 1 ? std::min(static_cast<std::int64_t>(share * static_cast<double>(places)), places - 1) : 0;
  return to_seconds(first + chosen, 1, rate);
}

Sound load_at(Demuxer& demuxer, SoundRequest request, int index) {
  const int stated = demuxer.sample_rate(index);
  const int rate = request.sample_rate > 0 ? request.sample_rate : stated > 0 ? stated : 8000;
  const std::int64_t num_samples = *request.num_samples;
  if (request.start) {
    return load_window(demuxer, request, index, window_from(*request.start, num_samples, rate));
  }
  std::optional<TimeWindow> extent = demuxer.extent(MediaType::kAudio, index);
  // A container may promise more than there is. What came then tells where the stream ends.
  for (int attempt = 0; extent && attempt < 2; ++attempt) {
    const double start = start_at(*request.share, *extent, num_samples, rate);
    try {
      Sound sound = load_window(demuxer, request, index, window_from(start, num_samples, rate));
      const bool is_whole = sound.silence_before + sound.num_valid == num_samples || start <= extent->start;
      if (is_whole) {
        return sound;
      }
      extent->end = to_seconds(sound.first + sound.silence_before + sound.num_valid, 1, sound.sample_rate);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConvert) {
        throw;
      }
      break;
    }
  }
  SoundRequest whole = request;
  whole.num_samples.reset();
  Sound all = load_window(demuxer, whole, index, std::nullopt);
  const TimeWindow real{to_seconds(all.first, 1, all.sample_rate),
                        to_seconds(all.first + all.num_samples, 1, all.sample_rate)};
  const double start = start_at(*request.share, real, num_samples, all.sample_rate);
  const std::int64_t skipped =
      std::clamp<std::int64_t>(first_sample_from(start, all.sample_rate) - all.first, 0, all.num_samples);
  const auto size = static_cast<std::size_t>(av_get_bytes_per_sample(request.format));
  for (int i = 0; i < all.num_channels; ++i) {
    std::uint8_t* row = all.memory.data() + static_cast<std::size_t>(i) * all.stride;
    std::memmove(row, row + static_cast<std::size_t>(skipped) * size,
                 static_cast<std::size_t>(all.num_samples - skipped) * size);
  }
  all.first += skipped;
  all.num_samples -= skipped;
  return padded_to(std::move(all), num_samples, 0, request.format);
}

}  // namespace

Sound load_sound(Demuxer& demuxer, const SoundRequest& request) {
  const int index = demuxer.choose(MediaType::kAudio, request.stream);
  if (request.start || request.share) {
    return load_at(demuxer, request, index);
  }
  if (request.window && request.window->empty()) {
    throw_empty(demuxer, index, request.window);
  }
  return load_window(demuxer, request, index, request.window);
}

}  // namespace spdl
