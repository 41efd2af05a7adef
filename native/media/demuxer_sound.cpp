// Sound: its bounds, and the packets of a window of it.

#include "media/demuxer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "media/flac_window.h"
#include "media/ogg_window.h"
#include "media/window.h"

namespace spdl {

// All packets of an Ogg file with one sound; false if libav has to read it.
bool Demuxer::read_ogg(Packets& into) {
  if (into.type != MediaType::kAudio || !ogg_) {
    return false;
  }
  OggChainReader reader(input_, into.stream_index, *ogg_);
  std::vector<av::PacketPtr> packets;
  while (av::PacketPtr packet = reader.next()) {
    packets.push_back(std::move(packet));
  }
  if (!reader.is_whole() && ogg_->is_single()) {
    return false;
  }
  if (!reader.is_whole()) {
    input_.report("a page of a chain of Ogg streams is damaged");
    into.num_errors = input_.take_num_errors();
  }
  into.packets = std::move(packets);
  return true;
}

// libav skips pages that are damaged without a word.
void Demuxer::expect_whole_ogg() {
  if (!ogg_state_) {
    ogg_state_ = check_ogg(input_, 0, std::numeric_limits<std::int64_t>::max());
  }
  report_ogg(*ogg_state_);
}

// How the pages are that a window of the sound needs, for which libav has just given these packets.
OggState Demuxer::check_read_pages(const Packets& from, TimeWindow window) {
  const bool is_from_start = from.sound.begins_stream || from.packets.empty();
  const std::int64_t first = is_from_start ? 0 : std::max<std::int64_t>(from.packets.front()->pos, 0);
  std::int64_t last = is_at_end_ ? std::numeric_limits<std::int64_t>::max() : last_position_;
  for (const auto& packet : from.packets) {
    const auto start = seconds_of(*packet, from.time_base);
    const double length = to_seconds(std::max<std::int64_t>(packet->duration, 0), from.time_base.num, from.time_base.den);
    if (start && *start < window.end && *start + length >= window.end) {
      last = packet->pos;
    }
  }
  return check_ogg(input_, first, last);
}

void Demuxer::report_ogg(OggState state) {
  if (state == OggState::kDamaged) {
    input_.report("a page of the Ogg file is damaged or missing");
  } else if (state == OggState::kCutOff) {
    input_.report("the data ends early, within a page of the Ogg file");
  }
}

namespace {

// Whether an edit list leaves out more than a delay. libav then cuts the packets at either end by their times, which after a
// seek are not those of reading from the start on; so only that tells where samples are.
bool is_trimmed(const AVFormatContext& context, AVStream& stream, const SoundBounds& bounds) noexcept {
  if (!std::string_view(context.iformat->name).starts_with("mov")) {
    return false;
  }
  const AVCodecID codec = stream.codecpar->codec_id;
  const bool has_no_delay =
      codec == AV_CODEC_ID_FLAC || codec == AV_CODEC_ID_ALAC || av_get_bits_per_sample(codec) > 0;
  return (stream.nb_frames > 0 && avformat_index_get_entries_count(&stream) != stream.nb_frames) ||
         (has_no_delay && bounds.delay > 0);
}

}  // namespace

// `window`: by the container's clock.
void Demuxer::demux_sound(Packets& into, TimeWindow window, SoundUse use) {
  const AVStream& from = stream(into.stream_index);
  const std::optional<Preroll> known_preroll = preroll_of(*from.codecpar, use);
  const bool is_counted = into.clock == SoundClock::kFirstSample;
  if (!known_preroll || (is_counted && is_trimmed(input_.context(), stream(into.stream_index), into.sound))) {
    demux_sound_from_start(into, window);
    report_ogg(check_read_pages(into, window));
    into.num_errors += input_.take_num_errors();
    return;
  }
  const Preroll& preroll = *known_preroll;
  const double packet_length = from.codecpar->sample_rate > 0
                                   ? std::max(from.codecpar->frame_size, 1024) / double(from.codecpar->sample_rate)
                                   : 0;
  const double before = packet_length * static_cast<double>(preroll.num_packets - 1);
  if (auto found = read_flac_window(input_, into.stream_index, {window.start - before, window.end})) {
    into.packets = std::move(*found);
    into.is_checked = true;
    return;
  }
  if (ogg_ && !ogg_->is_single() && read_ogg(into)) {
    AudioCollector collector(window, into.time_base, preroll, true);
    std::vector<av::PacketPtr> all = std::move(into.packets);
    for (av::PacketPtr& packet : all) {
      if (!collector.offer(std::move(packet))) {
        break;
      }
    }
    into.packets = collector.finish();
    return;
  }
  if (auto found = read_ogg_window(input_, into.stream_index, window, preroll, packet_length)) {
    into.packets = std::move(*found);
    return;
  }
  // Two packets more, as their lengths are a guess.
  const double target = window.start - preroll.seconds - packet_length * static_cast<double>(preroll.num_packets + 2);
  const bool counts = into.clock == SoundClock::kFirstSample && !into.sound.is_timed && into.sound.rate > 0;
  std::optional<std::int64_t> num_passed;
  const auto try_from = [&](bool from_start) {
    select({into.stream_index});
    const AVCodecParameters& parameters = *stream(into.stream_index).codecpar;
    AudioCollector collector(window, into.time_base, preroll, from_start);
    if (from_start && counts) {
      const std::int64_t first = start_position(into.sound, into.time_base, into.sound.rate) - into.sound.delay;
      collector.count(parameters, to_seconds(first, 1, into.sound.rate));
    }
    const bool has_found = collect(collector, into, from_start);
    into.sound.begins_stream = from_start && collector.has_kept_first();
    num_passed = collector.num_passed();
    return has_found;
  };
  const bool seeks = !counts || !is_cheap_to_count(input_);
  seek_and_try(into.stream_index, seeks ? target : start_of(stream(into.stream_index)), try_from);
  if (!into.sound.is_timed) {
    const auto index = num_passed ? num_passed : index_of(into.packets, input_, into.stream_index, into.sound);
    into.sound.first_index = index.value_or(0);
    if (counts && (!index || (into.sound.begins_stream && *index != 0))) {
      demux_sound_from_start(into, window);
      return;
    }
  }
  if (is_at_end_) {
    complete_sound_bounds(input_, into.stream_index, into.sound);
  }
  // Damage matters where it is wanted, and nowhere else. What lies between damaged pages, only reading all of them tells.
  if (const OggState state = check_read_pages(into, window); state != OggState::kWhole) {
    report_ogg(state);
    demux_sound_from_start(into, window);
  }
}

namespace {

// Packets from the first on, until there are enough samples. Where only decoding tells how many there are, time stamps have to
// do, which may say less; or all packets, if those are none of the container's own.
class CountingCollector {
 public:
  CountingCollector(const AVStream& stream, const SoundBounds& bounds, TimeWindow window, bool has_times)
      : stream_(stream),
        wanted_(window.end < kMostSeconds ? first_sample_from(window.end + kBehind, stream.codecpar->sample_rate) : kAll),
        end_(has_times ? window.end * 1.1 + 1 : std::numeric_limits<double>::infinity()) {
    if (wanted_ != kAll) {
      wanted_ += bounds.delay - std::min<std::int64_t>(start_position(bounds, stream.time_base, bounds.rate), 0);
    }
  }

  bool offer(av::PacketPtr packet) {
    const std::optional<int> count = num_samples_in(*packet, *stream_.codecpar);
    is_counted_ = is_counted_ && count;
    num_samples_ += count.value_or(0);
    const auto time = seconds_of(*packet, stream_.time_base);
    packets_.push_back(std::move(packet));
    return is_counted_ ? num_samples_ < wanted_ : !time || *time < end_;
  }
  static bool began_too_late() noexcept { return false; }
  std::vector<av::PacketPtr> finish() { return std::move(packets_); }

 private:
  static constexpr double kMostSeconds = 1e9;
  static constexpr double kBehind = 0.2;  // a few packets, and what a resampler looks at
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  const AVStream& stream_;
  std::int64_t wanted_;
  double end_;
  bool is_counted_ = true;
  std::int64_t num_samples_ = 0;
  std::vector<av::PacketPtr> packets_;
};

}  // namespace

// All packets up to the window, where only decoding tells how many samples are before it, or which state the decoder has there.
void Demuxer::demux_sound_from_start(Packets& into, TimeWindow window) {
  go_to_start();
  select({into.stream_index});
  const bool has_times = Seeker::has_reliable_times(input_, into.stream_index);
  CountingCollector collector(stream(into.stream_index), into.sound, window, has_times);
  collect(collector, into, true);
  into.sound.begins_stream = true;
  if (is_at_end_) {
    complete_sound_bounds(input_, into.stream_index, into.sound);
  }
}

const SoundBounds& Demuxer::sound_bounds(int index) {
  auto found = sounds_.find(index);
  if (found == sounds_.end()) {
    const std::int64_t start = static_cast<std::size_t>(index) < starts_.size() ? starts_[static_cast<std::size_t>(index)] : 0;
    found = sounds_.emplace(index, read_sound_bounds(input_, index, start)).first;
    ogg_ = find_ogg_chain(input_, index);
    if (ogg_) {
      SoundBounds& bounds = found->second;
      bounds.length = ogg_->num_samples();
      if (stream(index).codecpar->codec_id == AV_CODEC_ID_VORBIS) {
        bounds.first_pts = ogg_->links.front().first;
      }
    }
  }
  return found->second;
}

std::optional<std::int64_t> Demuxer::declared_samples(int index) {
  return spdl::declared_samples(input_, index, sound_bounds(index));
}

std::optional<std::int64_t> Demuxer::num_samples(int index) {
  auto found = num_samples_.find(index);
  if (found == num_samples_.end()) {
    const SoundBounds& bounds = sound_bounds(index);
    std::optional<std::int64_t> count = spdl::declared_samples(input_, index, bounds);
    if (!count && !bounds.is_timed) {
      const Packets all = demux(MediaType::kAudio, std::nullopt, std::nullopt, index);
      count = count_samples(all.packets, stream(index), all.sound);
    }
    found = num_samples_.emplace(index, count).first;
  }
  return found->second;
}

}  // namespace spdl
