#include "media/ogg_window.h"

extern "C" {
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
#include "media/ogg_sound.h"

namespace spdl {

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
  const auto sound = ogg_sound_of(*of.codecpar);
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
    if (sound->is_first_silent) {
      packets.set_first_is_silent();
    }
    AudioCollector collector(window, of.time_base, preroll, begins_stream);
    std::optional<OggPacket> packet = packets.next();
    while (packet && collector.offer(make_ogg_packet(*packet, *sound, stream))) {
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
