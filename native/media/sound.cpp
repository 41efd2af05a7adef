#include "media/sound.h"

extern "C" {
#include <libavutil/mathematics.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "base/watch.h"
#include "media/decode.h"
#include "media/sample_time.h"
#include "media/sound_excerpt.h"

namespace spdl {
namespace {

constexpr const char* kLoad = "load a window of";

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
void decode(Demuxer& demuxer, const SoundRequest& request, int index, std::optional<TimeWindow> window,
            SoundExcerpt& excerpt) {
  Packets packets = demuxer.demux(MediaType::kAudio, window, std::nullopt, index, SoundUse::kExactly,
                                  SoundClock::kFirstSample);
  packets.window.reset();  // the excerpt is more exact
  const Codec& codec = codec_of(packets);
  excerpt.set_stream(packets.source, window && packets.sound.is_timed);
  DecodeConfig config = request.decode;
  if (packets.is_checked && !config.decoder) {
    config.options.try_emplace("err_detect", "explode");  // as by default, but without checksums
  }
  WindowDecoder decoder(codec, config, packets.source, packets.stream_index);
  SampleWindow places(codec);
  places.set(packets);
  Watch watch;
  const auto take = [&](av::FramePtr frame) {
    const int frame_size = decoder.frame_size(*frame);
    frame = places.place(std::move(frame), frame_size);
    return frame == nullptr || excerpt.put(*frame);
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

// Where index 0 is by the clock of the request, in samples of the second number.
std::pair<std::int64_t, int> zero_of(Demuxer& demuxer, const SoundRequest& request, int index) {
  if (request.clock == SoundClock::kFirstSample) {
    return {0, 1};
  }
  const SoundBounds& bounds = demuxer.sound_bounds(index);
  const int rate = bounds.rate > 0 ? bounds.rate : 1;
  return {start_position(bounds, demuxer.time_base(index), rate), rate};
}

// Start and end of the sound by the clock of the request, as the container states them.
std::optional<TimeWindow> extent_of(Demuxer& demuxer, const SoundRequest& request, int index) {
  const auto stated = demuxer.extent(MediaType::kAudio, index);
  if (!stated) {
    return std::nullopt;
  }
  const auto [zero, rate] = zero_of(demuxer, request, index);
  const double start = to_seconds(zero, 1, rate);
  const auto count = demuxer.declared_samples(index);
  const double length =
      count ? to_seconds(*count, 1, std::max(demuxer.sample_rate(index), 1)) : stated->end - stated->start;
  return TimeWindow{start, start + length};
}

[[noreturn]] void throw_empty(Demuxer& demuxer, const SoundRequest& request, int index, std::optional<TimeWindow> window) {
  std::string reason = "there are no samples";
  if (window) {
    reason += " in [" + text_of(window->start) + ", " + text_of(window->end) + ") seconds";
    if (const auto extent = extent_of(demuxer, request, index)) {
      reason += "; the audio stream goes from " + text_of(extent->start) + " to " + text_of(extent->end);
    }
  }
  throw Error(ErrorKind::kConvert, std::string(kLoad) + " audio", reason).in(demuxer.name());
}

// What there is to load: samples with these indices, of any rate; all if none is given.
using SpanOf = std::function<SampleSpan(int)>;

// `window`: what the span is at any rate, in seconds from the first sample; and `num_samples`, if that is given.
Sound load_span(Demuxer& demuxer, const SoundRequest& request, int index, std::optional<TimeWindow> window,
                const SpanOf& wanted) {
  const std::optional<std::int64_t> num_samples = request.num_samples;
  std::optional<TimeWindow> read;
  if (window) {
    read = with_reach(*window, demuxer.sample_rate(index), request.sample_rate);
  }
  const auto span_of = [&](int rate) {
    SampleSpan span{-SoundExcerpt::kFar, SoundExcerpt::kForever};
    if (window) {
      span = wanted(rate);
    }
    if (window && num_samples) {
      span.end = std::min(span.end, span.first + *num_samples);
    }
    return span;
  };
  SoundExcerpt excerpt(request, span_of);
  decode(demuxer, request, index, read, excerpt);
  const std::int64_t first = window ? excerpt.span().first : excerpt.first_kept();
  const std::int64_t silence = num_samples ? std::clamp<std::int64_t>(excerpt.first_kept() - first, 0, *num_samples) : 0;
  if (excerpt.count() == 0) {
    return {};
  }
  Sound sound = std::move(excerpt).take();
  return num_samples ? padded_to(std::move(sound), *num_samples, silence, request.format) : std::move(sound);
}

void set_start(Sound& sound, std::pair<std::int64_t, int> zero) noexcept {
  sound.start = to_seconds(zero.first, 1, zero.second) + to_seconds(sound.first, 1, sound.sample_rate);
}

// The samples of a window; `num_samples` of them, from its start on, if that is given.
Sound load_window(Demuxer& demuxer, const SoundRequest& request, int index, std::optional<TimeWindow> window) {
  const auto zero = zero_of(demuxer, request, index);
  std::optional<TimeWindow> from_zero = window;
  if (window) {
    const double start = to_seconds(zero.first, 1, zero.second);
    from_zero = {window->start - start, window->end - start};
  }
  Sound sound = load_span(demuxer, request, index, from_zero,
                          [&](int rate) { return samples_in(*window, rate, zero.first, zero.second); });
  if (sound.num_samples == 0) {
    throw_empty(demuxer, request, index, window);
  }
  set_start(sound, zero);
  return sound;
}

TimeWindow window_from(double start, std::int64_t num_samples, int rate) noexcept {
  // Not one sample less for rounding; the number of samples is what counts.
  return {start, start + (static_cast<double>(num_samples) + 1) / rate};
}

// The place in the middle of which `share` points among those where `num_samples` fit.
std::int64_t first_at(double share, std::int64_t num_all, std::int64_t num_samples) noexcept {
  const std::int64_t places = num_all - num_samples + 1;
  return places > 1 ? std::min(static_cast<std::int64_t>(share * static_cast<double>(places)), places - 1) : 0;
}

// The number of samples that resampling all of the sound gives.
std::optional<std::int64_t> num_resampled(Demuxer& demuxer, int index, int rate) {
  const int in_rate = demuxer.sample_rate(index);
  std::optional<std::int64_t> count = demuxer.num_samples(index);
  if (!count && demuxer.sound_bounds(index).is_timed) {
    if (const auto extent = demuxer.extent(MediaType::kAudio, index)) {
      count = first_sample_from(extent->end, std::max(in_rate, 1)) - first_sample_from(extent->start, std::max(in_rate, 1));
    }
  }
  return count && in_rate > 0 ? std::optional(av_rescale_rnd(*count, rate, in_rate, AV_ROUND_UP)) : std::nullopt;
}

// A random place, each that fits as likely as any other.
Sound load_anywhere(Demuxer& demuxer, const SoundRequest& request, int index, int rate) {
  const std::int64_t num_samples = *request.num_samples;
  if (const auto num_all = num_resampled(demuxer, index, rate)) {
    const std::int64_t first = first_at(*request.share, *num_all, num_samples);
    Sound sound = load_span(demuxer, request, index, window_from(to_seconds(first, 1, rate), num_samples, rate),
                            [&](int) { return SampleSpan{first, first + num_samples}; });
    // A container may promise more than there is.
    if (sound.num_samples > 0 && sound.num_valid == std::min(num_samples, *num_all)) {
      return sound;
    }
  }
  SoundRequest whole = request;
  whole.num_samples.reset();
  Sound all = load_window(demuxer, whole, index, std::nullopt);
  const std::int64_t skipped = first_at(*request.share, all.num_samples, num_samples);
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

Sound load_at(Demuxer& demuxer, const SoundRequest& request, int index) {
  const int stated = demuxer.sample_rate(index);
  const int rate = request.sample_rate > 0 ? request.sample_rate : stated > 0 ? stated : 8000;
  if (request.start) {
    return load_window(demuxer, request, index, window_from(*request.start, *request.num_samples, rate));
  }
  Sound sound = load_anywhere(demuxer, request, index, rate);
  set_start(sound, zero_of(demuxer, request, index));
  return sound;
}

}  // namespace

Sound load_sound(Demuxer& demuxer, const SoundRequest& request) {
  const int index = demuxer.choose(MediaType::kAudio, request.stream);
  if (request.start || request.share) {
    return load_at(demuxer, request, index);
  }
  if (request.window && request.window->empty()) {
    throw_empty(demuxer, request, index, request.window);
  }
  return load_window(demuxer, request, index, request.window);
}

}  // namespace spdl
