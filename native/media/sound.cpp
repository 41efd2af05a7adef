#include "media/sound.h"

extern "C" {
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <cstdio>
#include <cstring>
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
    SampleSpan span{-SoundExcerpt::kFar, SoundExcerpt::kForever};
    if (window) {
      span = samples_in(*window, rate);
    }
    if (window && num_samples) {
      span.end = std::min(span.end, span.first + *num_samples);
    }
    return span;
  };
  SoundExcerpt excerpt(request, window.has_value(), span_of);
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
