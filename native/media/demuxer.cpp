#include "media/demuxer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "media/bsf.h"
#include "media/pts_filler.h"
#include "media/window.h"

namespace spdl {
namespace {

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

}  // namespace

CodecPtr Demuxer::codec_of(const Input& input, MediaType type, int index) {
  AVStream& stream = *input.context().streams[index];
  const AVRational rate =
      type == MediaType::kAudio ? AVRational{0, 1} : av_guess_frame_rate(&input.context(), &stream, nullptr);
  return make_codec(type, *stream.codecpar, stream.time_base, rate.den != 0 ? rate : AVRational{0, 1},
                    input.has_all_parameters(), av::side_data_of(stream));
}

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

std::optional<TimeWindow> Demuxer::extent(MediaType type, std::optional<int> index) {
  const AVStream& from = stream(choose(type, index));
  if (const Demuxer* other = edited(from.index)) {
    return other->edited_extent();
  }
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
  if (Demuxer* other = type == MediaType::kVideo ? edited(index) : nullptr) {
    stop_reading();
    return other->demux(type, window, bsf, index, use, clock);
  }
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

bool Demuxer::read_until(Packets& into, bool from_start, const std::function<bool(av::PacketPtr)>& offer) {
  PtsFiller filler(*into.codec, {input_.knows_display(), from_start, input_.asked_frame_rate()});
  // False once there are enough.
  const auto pass_on = [&] {
    while (av::PacketPtr packet = filler.pop()) {
      if (!offer(std::move(packet))) {
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
  return goes_on;
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

void Demuxer::seek_and_try(int index, double target, const std::function<bool(bool)>& try_from) {
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

}  // namespace spdl
