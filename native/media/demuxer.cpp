#include "media/demuxer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "media/bsf.h"
#include "media/flac_window.h"
#include "media/ogg_window.h"
#include "media/pts_filler.h"
#include "media/window.h"

namespace spdl {
namespace {

bool is_cover(const AVStream& stream) noexcept { return (stream.disposition & AV_DISPOSITION_ATTACHED_PIC) != 0; }

std::int64_t area(const AVStream& stream) noexcept {
  return static_cast<std::int64_t>(stream.codecpar->width) * stream.codecpar->height;
}

// Negative if there is none.
int find_stream(AVFormatContext& context, MediaType type) {
  if (type == MediaType::kAudio) {
    return av_find_best_stream(&context, AVMEDIA_TYPE_AUDIO, -1, -1, nullptr, 0);
  }
  const int best = av_find_best_stream(&context, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (best < 0 || !is_cover(*context.streams[best])) {
    return best;
  }
  // libav takes a cover for a video.
  int largest = -1;
  for (unsigned i = 0; i < context.nb_streams; ++i) {
    const AVStream& stream = *context.streams[i];
    if (stream.codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !is_cover(stream) &&
        (largest < 0 || area(stream) > area(*context.streams[largest]))) {
      largest = static_cast<int>(i);
    }
  }
  return largest < 0 && type == MediaType::kImage ? best : largest;
}

// Seconds to ticks, downwards, within what libav can add to.
std::int64_t to_ticks(double seconds, AVRational time_base) noexcept {
  constexpr double kMost = 1e17;
  return static_cast<std::int64_t>(std::floor(std::clamp(seconds * time_base.den / time_base.num, -kMost, kMost)));
}

// The codec as far as the input knows it.
CodecPtr codec_of(const Input& input, MediaType type, int index) {
  AVStream& stream = *input.context().streams[index];
  const AVRational rate =
      type == MediaType::kAudio ? AVRational{0, 1} : av_guess_frame_rate(&input.context(), &stream, nullptr);
  return make_codec(type, *stream.codecpar, stream.time_base, rate.den != 0 ? rate : AVRational{0, 1},
                    input.has_all_parameters(), av::side_data_of(stream));
}

}  // namespace

Demuxer::Demuxer(MediaSource source, std::string name, DemuxConfig config)
    : input_(std::move(source), std::move(name), std::move(config)) {
  // Now, as libav takes the first packet after a seek for it where it does not know.
  for (int i = 0; i < num_streams(); ++i) {
    starts_.push_back(stream(i).start_time != AV_NOPTS_VALUE ? stream(i).start_time : 0);
  }
}

bool Demuxer::has(MediaType type) const { return find_stream(input_.context(), type) >= 0; }

int Demuxer::stream_index(MediaType type) const {
  const int index = find_stream(input_.context(), type);
  if (index < 0) {
    throw Error(ErrorKind::kStreamNotFound, "demux",
                std::string("No ") + name_of(type) + " stream was found in " + input_.name())
        .in(input_.name());
  }
  return index;
}

double Demuxer::start_of(const AVStream& from) const noexcept {
  // A container may come upon more streams as it goes on.
  const auto index = static_cast<std::size_t>(from.index);
  return index < starts_.size() ? to_seconds(starts_[index], from.time_base.num, from.time_base.den) : 0;
}

int Demuxer::choose(MediaType type, std::optional<int> index) const {
  if (!index) {
    return stream_index(type);
  }
  const MediaType found = stream_type(*index);
  if ((found == MediaType::kAudio) != (type == MediaType::kAudio)) {
    throw Error(ErrorKind::kStreamNotFound, "demux",
                "stream " + std::to_string(*index) + " is " + name_of(found) + ", not " + name_of(type))
        .in(input_.name());
  }
  return *index;
}

std::optional<TimeWindow> Demuxer::extent(MediaType type, std::optional<int> index) const {
  const AVStream& from = stream(choose(type, index));
  const double start = start_of(from);
  if (from.duration > 0) {
    return TimeWindow{start, start + to_seconds(from.duration, from.time_base.num, from.time_base.den)};
  }
  if (input_.context().duration > 0) {
    return TimeWindow{start, start + to_seconds(input_.context().duration, 1, AV_TIME_BASE)};
  }
  return std::nullopt;
}

CodecPtr Demuxer::codec(MediaType type) { return codec(type, stream_index(type)); }

CodecPtr Demuxer::codec(int index) { return codec(stream_type(index), index); }

CodecPtr Demuxer::codec(MediaType type, int index) {
  if (input_.has_all_parameters()) {
    return codec_of(input_, type, index);
  }
  if (!full_codec_ || full_codec_->type != type || full_codec_index_ != index) {
    // By a second reader, as this one may be in the middle of something.
    full_codec_ = codec_of(input_.with_all_parameters(), type, index);
    full_codec_index_ = index;
  }
  return full_codec_;
}

ContainerFacts Demuxer::facts() {
  return input_.has_all_parameters() ? facts_of(input_.context()) : facts_of(input_.with_all_parameters().context());
}

std::optional<Demuxer::PictureGrid> Demuxer::picture_grid(int index) const {
  AVStream& from = stream(index);
  const int count = avformat_index_get_entries_count(&from);
  // Of two pictures any step is regular.
  if (count < 3 || from.nb_frames != count || from.start_time == AV_NOPTS_VALUE || from.time_base.num <= 0 ||
      from.time_base.den <= 0) {
    return std::nullopt;
  }
  std::int64_t first = 0;
  std::int64_t step = 0;
  for (int i = 0; i < count; ++i) {
    const AVIndexEntry* entry = avformat_index_get_entry(&from, i);
    if (entry == nullptr || (entry->flags & AVINDEX_DISCARD_FRAME) != 0) {
      return std::nullopt;
    }
    // Whose time stamps may be any numbers.
    std::int64_t passed = 0;
    std::int64_t expected = 0;
    if (i == 0) {
      first = entry->timestamp;
    } else if (__builtin_sub_overflow(entry->timestamp, first, &passed) || passed <= 0) {
      return std::nullopt;
    } else if (i == 1) {
      step = passed;
    } else if (__builtin_mul_overflow(step, static_cast<std::int64_t>(i), &expected) || passed != expected) {
      return std::nullopt;
    }
  }
  std::int64_t end = 0;
  if (__builtin_mul_overflow(step, static_cast<std::int64_t>(count), &end) ||
      __builtin_add_overflow(end, from.start_time, &end)) {
    return std::nullopt;
  }
  return PictureGrid{count, from.start_time, step, from.time_base};
}

int Demuxer::num_streams() const noexcept { return static_cast<int>(input_.context().nb_streams); }

MediaType Demuxer::stream_type(int index) const {
  if (index >= 0 && index < num_streams()) {
    const AVMediaType type = stream(index).codecpar->codec_type;
    if (type == AVMEDIA_TYPE_AUDIO) {
      return MediaType::kAudio;
    }
    if (type == AVMEDIA_TYPE_VIDEO) {
      return MediaType::kVideo;
    }
  }
  throw Error(ErrorKind::kStreamNotFound, "demux",
              "stream index " + std::to_string(index) + " is not one of audio or video; there are " +
                  std::to_string(num_streams()) + " streams")
      .in(input_.name());
}

Packets Demuxer::new_packets(MediaType type, int index) const {
  Packets packets;
  packets.type = type;
  packets.source = input_.name();
  packets.stream_index = index;
  packets.time_base = stream(index).time_base;
  packets.start = static_cast<std::size_t>(index) < starts_.size() ? starts_[static_cast<std::size_t>(index)] : 0;
  return packets;
}

void Demuxer::select(const std::set<int>& streams) {
  // Parsers take as long as all the rest of reading. Samples of these are pictures, with all times and key frames in tables.
  const bool is_told = std::string_view(input_.context().iformat->name).starts_with("mov") &&
                       std::ranges::all_of(streams, [&](int index) {
                         const AVCodecID id = stream(index).codecpar->codec_id;
                         return id == AV_CODEC_ID_H264 || id == AV_CODEC_ID_HEVC;
                       });
  int& flags = input_.context().flags;
  flags = is_told ? flags | AVFMT_FLAG_NOPARSE : flags & ~AVFMT_FLAG_NOPARSE;
  for (int i = 0; i < num_streams(); ++i) {
    stream(i).discard = streams.contains(i) ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  }
}

void Demuxer::expect_whole_picture(int index) const {
  if (const auto grid = av::tile_grid_of(input_.context(), index)) {
    throw Error(ErrorKind::kDemux, "demux",
                "its picture is a grid of " + std::to_string(grid->tiles.size()) +
                    " tiles, each a stream of its own: load_image and load_image_batch put them together")
        .in(input_.name())
        .at(index, {});
  }
}

Packets Demuxer::demux(MediaType type, std::optional<TimeWindow> window, const std::optional<std::string>& bsf,
                       std::optional<int> chosen, SoundUse use, SoundClock clock) {
  const int index = choose(type, chosen);
  expect_whole_picture(index);
  Packets packets = new_packets(type, index);
  const bool has_full = full_codec_ && full_codec_->type == type && full_codec_index_ == index;
  packets.codec = has_full ? full_codec_ : codec_of(input_, type, index);
  packets.window = window;
  packets.clock = clock;
  stop_reading();
  try {
    if (type == MediaType::kAudio) {
      packets.sound = sound_bounds(index);
    }
    if (type == MediaType::kImage) {
      demux_picture(packets);
    } else if (window) {
      demux_window(packets, use);
    } else {
      demux_all(packets);
    }
  } catch (Error& error) {
    if (!error.stream_index) {
      error.stream_index = index;
    }
    throw;
  }
  if (type == MediaType::kAudio && packets.sound.begins_stream && !packets.packets.empty()) {
    mark_delay(*packets.packets.front(), *stream(index).codecpar, packets.sound);
  }
  if (!packets.packets.empty()) {
    av::carry_side_data(stream(index), *packets.packets.front());
  }
  return bsf ? apply_bsf(std::move(packets), *bsf) : std::move(packets);
}

// Reads packets of the selected stream until the collector has enough; false if they began too late for it.
template <class Collector>
bool Demuxer::collect(Collector& collector, Packets& into, bool from_start) {
  PtsFiller filler(*into.codec, {input_.knows_display(), from_start, input_.asked_frame_rate()});
  // False once the collector has enough.
  const auto pass_on = [&] {
    while (av::PacketPtr packet = filler.pop()) {
      if (!collector.offer(std::move(packet))) {
        return false;
      }
    }
    return true;
  };
  bool goes_on = true;
  last_position_ = -1;
  while (goes_on) {
    av::PacketPtr packet = av::new_packet();
    if (!input_.read(*packet)) {
      break;
    }
    if (packet->stream_index == into.stream_index) {
      last_position_ = std::max(last_position_, packet->pos);
      filler.push(std::move(packet));
      goes_on = pass_on();
    }
  }
  into.num_errors = input_.take_num_errors();
  is_at_end_ = goes_on;
  if (goes_on) {
    filler.finish();
    static_cast<void>(pass_on());
  }
  if (collector.began_too_late()) {
    return false;
  }
  into.packets = collector.finish();
  return true;
}

namespace {

struct AllPackets {
  std::vector<av::PacketPtr> packets;

  bool offer(av::PacketPtr packet) {
    packets.push_back(std::move(packet));
    return true;
  }
  static bool began_too_late() noexcept { return false; }
  std::vector<av::PacketPtr> finish() { return std::move(packets); }
};

// The first key frame, or the first packet if nothing is marked as one.
struct FirstPicture {
  std::vector<av::PacketPtr> packets;

  bool offer(av::PacketPtr packet) {
    const bool is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0;
    if (is_key) {
      packets.clear();
    }
    if (is_key || packets.empty()) {
      packets.push_back(std::move(packet));
    }
    return !is_key;
  }
  static bool began_too_late() noexcept { return false; }
  std::vector<av::PacketPtr> finish() { return std::move(packets); }
};

}  // namespace

void Demuxer::go_to_start() {
  if (!input_.is_at_start()) {
    input_.reopen();
  }
}

void Demuxer::demux_picture(Packets& into) {
  const AVStream& from = stream(into.stream_index);
  if (is_cover(from) && from.attached_pic.size > 0) {
    into.packets.push_back(av::clone(from.attached_pic));
    return;
  }
  go_to_start();
  select({into.stream_index});
  FirstPicture picture;
  collect(picture, into, true);
  if (into.packets.empty() && into.num_errors == 0) {
    throw Error(ErrorKind::kDemux, "read a picture of", "its stream has no data").in(input_.name());
  }
}

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

void Demuxer::demux_all(Packets& into) {
  if (read_ogg(into)) {
    return;
  }
  expect_whole_ogg();
  go_to_start();
  select({into.stream_index});
  AllPackets all;
  collect(all, into, true);
  if (into.type == MediaType::kAudio) {
    complete_sound_bounds(input_, into.stream_index, into.sound);
  }
}

// Seeks to the target, then ever further back, then to the start, until `try_from(from_start)` is true.
template <class Try>
void Demuxer::seek_and_try(int index, double target, Try&& try_from) {
  const double first = start_of(stream(index));
  if (Seeker::has_reliable_times(input_, index)) {
    constexpr int kMostAttempts = 8;
    double step = 1;
    for (int attempt = 0; attempt < kMostAttempts && target > first; ++attempt) {
      if (seeker_.seek(input_, index, to_ticks(target, stream(index).time_base)) && try_from(false)) {
        return;
      }
      target -= step;
      step *= 4;
    }
  }
  go_to_start();
  try_from(true);
}

void Demuxer::demux_window(Packets& into, SoundUse use) {
  TimeWindow window = *into.window;
  if (window.empty()) {
    return;
  }
  if (into.type == MediaType::kAudio) {
    if (into.clock == SoundClock::kFirstSample) {
      const double start = sound_start(into);
      window = {window.start + start, window.end + start};
    }
    demux_sound(into, window, use);
    return;
  }
  seek_and_try(into.stream_index, window.start, [&](bool from_start) {
    select({into.stream_index});
    VideoCollector collector(window, *into.codec->parameters, {into.time_base, from_start, input_.has_reliable_dts()});
    return collect(collector, into, from_start);
  });
}

// `window`: by the container's clock.
void Demuxer::demux_sound(Packets& into, TimeWindow window, SoundUse use) {
  const AVStream& from = stream(into.stream_index);
  const std::optional<Preroll> known_preroll = preroll_of(*from.codecpar, use);
  if (!known_preroll) {
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

int Demuxer::start_reading(const std::set<int>& streams) {
  for (const int index : streams) {
    stream_type(index);  // which throws for a bad one
  }
  stop_reading();
  for (const int index : streams) {
    if (stream_type(index) == MediaType::kAudio) {
      sound_bounds(index);
    }
  }
  std::unique_ptr<OggChainReader> ogg;
  const int first = *streams.begin();
  if (streams.size() == 1 && ogg_ && stream_type(first) == MediaType::kAudio) {
    OggChainReader trial(input_, first, *ogg_);
    while (trial.next()) {
    }
    if (trial.is_whole()) {
      ogg = std::make_unique<OggChainReader>(input_, first, *ogg_);
    }
  }
  if (!ogg) {
    expect_whole_ogg();
  }
  go_to_start();
  std::map<int, CodecPtr> codecs;
  for (const int index : streams) {
    codecs.emplace(index, codec_of(input_, stream_type(index), index));
  }
  // The first stream of moving pictures, or else the first.
  const auto moves = std::find_if(streams.begin(), streams.end(), [&](int index) {
    return stream_type(index) == MediaType::kVideo && !is_cover(stream(index));
  });
  reading_.emplace(input_, std::move(codecs), moves != streams.end() ? *moves : *streams.begin(), std::move(ogg));
  return round_;
}

void Demuxer::stop_reading() noexcept {
  ++round_;
  reading_.reset();
  started_.clear();
}

std::map<int, Packets> Demuxer::read_some(int round, std::optional<double> duration, std::optional<int> num_packets) {
  if (round != round_ || !reading_) {
    throw Error(ErrorKind::kMedia, "continue reading",
                "the demuxer was used for something else meanwhile; use one Demuxer for each iterator")
        .in(input_.name());
  }
  std::map<int, Packets> chunk;
  const auto add = [&](int index) -> Packets& {
    return chunk.emplace(index, new_packets(stream_type(index), index)).first->second;
  };
  if (reading_->is_at_end()) {
    return chunk;
  }
  select(reading_->streams());
  for (auto& [index, packets] : reading_->read(input_, duration, num_packets)) {
    Packets& read = add(index);
    read.packets = std::move(packets);
    if (read.type != MediaType::kAudio) {
      continue;
    }
    read.sound = sound_bounds(index);
    if (started_.insert(index).second && !read.packets.empty()) {
      mark_delay(*read.packets.front(), *stream(index).codecpar, read.sound);
    } else {
      read.sound.begins_stream = false;
    }
    if (reading_->is_at_end()) {
      complete_sound_bounds(input_, index, read.sound);
    }
  }
  const int num_errors = input_.take_num_errors();
  if (num_errors > 0 && chunk.empty()) {
    add(reading_->leader());
  }
  for (auto& [index, packets] : chunk) {
    packets.num_errors = num_errors;
  }
  return chunk;
}

}  // namespace spdl
