#include "media/ogg_window.h"

extern "C" {
#include <libavcodec/vorbis_parser.h>
#include <libavformat/avio.h>
}

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "image/bytes.h"
#include "media/ogg_pages.h"

namespace spdl {
namespace {

using VorbisParserPtr = std::unique_ptr<AVVorbisParseContext, av::FreeByAddress<&av_vorbis_parse_free>>;

// In samples at 48 kHz (RFC 6716, section 3.1).
std::optional<std::int64_t> opus_duration(Bytes packet) noexcept {
  if (packet.empty()) {
    return std::nullopt;
  }
  constexpr std::int64_t kMost = 5760;  // 120 ms
  constexpr std::array<std::int64_t, 4> kSilk = {480, 960, 1920, 2880};
  const unsigned config = packet[0] >> 3;
  const std::int64_t of_frame = config < 12   ? kSilk[config & 3]
                                : config < 16 ? 480 << (config & 1)
                                              : 120 << (config & 3);
  const unsigned code = packet[0] & 3;
  const std::int64_t num_frames = code == 0 ? 1 : code < 3 ? 2 : byte_at(packet, 1) & 0x3f;
  const std::int64_t duration = of_frame * num_frames;
  return duration > 0 && duration <= kMost ? std::optional(duration) : std::nullopt;
}

// What has to be known of the stream.
struct Sound {
  OggPackets::DurationOf duration_of;
  std::int64_t pts_of_zero = 0;  // time stamp of granule position 0
  std::size_t num_headers = 0;   // packets in front
  bool has_short_end = false;    // durations of packets are without samples behind the end of the stream, as libav has them
};

std::optional<Sound> sound_of(const AVCodecParameters& parameters) {
  if (parameters.codec_id == AV_CODEC_ID_OPUS) {
    // Number of samples to leave out in front (RFC 7845, section 5.1).
    const Bytes head(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
    constexpr std::size_t kShortest = 19;
    if (head.size() < kShortest) {
      return std::nullopt;
    }
    return Sound{opus_duration, -static_cast<std::int64_t>(little_endian(head, 10, 2)), 2, true};
  }
  std::shared_ptr<AVVorbisParseContext> parser =
      VorbisParserPtr(av_vorbis_parse_init(parameters.extradata, parameters.extradata_size));
  if (!parser) {
    return std::nullopt;
  }
  return Sound{[parser](Bytes packet) -> std::optional<std::int64_t> {
                 int flags = 0;  // of packets that are headers
                 const int duration =
                     av_vorbis_parse_frame_flags(parser.get(), packet.data(), static_cast<int>(packet.size()), &flags);
                 return duration > 0 && flags == 0 ? std::optional<std::int64_t>(duration) : std::nullopt;
               },
               0, 3, false};
}

av::PacketPtr make_packet(const OggPacket& from, const Sound& sound, int stream) {
  av::PacketPtr packet = av::new_packet();
  if (av_new_packet(packet.get(), static_cast<int>(from.bytes.size())) < 0) {
    throw std::bad_alloc();
  }
  std::memcpy(packet->data, from.bytes.data(), from.bytes.size());
  packet->pts = packet->dts = from.first + sound.pts_of_zero;
  packet->duration =
      sound.has_short_end ? std::max<std::int64_t>(from.duration - from.num_unwanted, 1) : from.duration;
  packet->pos = from.position;
  packet->flags |= AV_PKT_FLAG_KEY;
  packet->stream_index = stream;
  if (from.num_unwanted > 0) {
    constexpr std::size_t kSkipSamples = 10;
    std::uint8_t* side = av_packet_new_side_data(packet.get(), AV_PKT_DATA_SKIP_SAMPLES, kSkipSamples);
    if (side == nullptr) {
      throw std::bad_alloc();
    }
    std::memset(side, 0, kSkipSamples);
    for (std::size_t i = 0; i < 4; ++i) {
      side[4 + i] = static_cast<std::uint8_t>(from.num_unwanted >> (8 * i));
    }
  }
  return packet;
}

}  // namespace

std::optional<std::vector<av::PacketPtr>> read_ogg_window(Input& input, int stream, TimeWindow window,
                                                          const Preroll& preroll, double packet_length) {
  const AVFormatContext& context = input.context();
  const AVStream& of = *context.streams[stream];
  const AVCodecID codec = of.codecpar->codec_id;
  if (std::string_view(context.iformat->name) != "ogg" || context.nb_streams != 1 ||
      (codec != AV_CODEC_ID_VORBIS && codec != AV_CODEC_ID_OPUS) || of.time_base.num != 1 || of.time_base.den < 1 ||
      of.duration <= 0 || (context.pb->seekable & AVIO_SEEKABLE_NORMAL) == 0) {
    return std::nullopt;
  }
  const auto sound = sound_of(*of.codecpar);
  if (!sound) {
    return std::nullopt;
  }
  const std::int64_t start = of.start_time != AV_NOPTS_VALUE ? of.start_time : 0;
  const auto granule_at = [&](double seconds) {
    return static_cast<std::int64_t>(std::floor(seconds * of.time_base.den)) - sound->pts_of_zero;
  };
  constexpr double kMostSeconds = 1e9;
  double from = std::max(
      window.start - preroll.seconds - packet_length * static_cast<double>(preroll.num_packets + 1), -1.0);
  if (!(from < kMostSeconds)) {
    return std::nullopt;
  }
  const std::int64_t file_size = avio_size(context.pb);
  BlockReader reader([&](std::int64_t position, std::span<std::uint8_t> into) { return input.read_at(position, into); });
  const BytesAt bytes_at = std::ref(reader);
  // Packet lengths are a guess.
  constexpr int kMostAttempts = 3;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    auto page = from > 0 ? find_ogg_page(file_size, granule_at(from), start + of.duration - sound->pts_of_zero, bytes_at)
                         : std::nullopt;
    const bool begins_stream = !page;
    if (begins_stream) {
      page = find_first_ogg_page(file_size, sound->num_headers, bytes_at);
    }
    // Where the search failed for something else, what is wanted is far behind.
    if (!page || (begins_stream && page->granule < granule_at(from))) {
      return std::nullopt;
    }
    OggPackets packets(*page, begins_stream, file_size, bytes_at, sound->duration_of);
    AudioCollector collector(window, of.time_base, preroll, begins_stream);
    std::optional<OggPacket> packet = packets.next();
    while (packet && collector.offer(make_packet(*packet, *sound, stream))) {
      packet = packets.next();
    }
    if (packets.has_failed()) {
      return std::nullopt;
    }
    if (!collector.began_too_late()) {
      return collector.finish();
    }
    from -= 1 << attempt;
  }
  return std::nullopt;
}

}  // namespace spdl
