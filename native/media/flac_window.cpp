#include "media/flac_window.h"

extern "C" {
#include <libavformat/avio.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "media/block_reader.h"
#include "media/flac_frames.h"

namespace spdl {
namespace {

constexpr double kBehind = 0.01;  // as AudioCollector does it

std::int64_t to_samples(double seconds, int rate) noexcept {
  constexpr double kMost = 1e15;
  return static_cast<std::int64_t>(std::floor(std::clamp(seconds * rate, 0.0, kMost)));
}

av::PacketPtr make_packet(const FlacFrame& frame, std::span<const std::uint8_t> bytes, int stream) {
  av::PacketPtr packet = av::new_packet();
  if (av_new_packet(packet.get(), static_cast<int>(bytes.size())) < 0) {
    throw std::bad_alloc();
  }
  std::memcpy(packet->data, bytes.data(), bytes.size());
  packet->pts = packet->dts = frame.first;
  packet->duration = frame.num_samples;
  packet->pos = frame.position;
  packet->flags |= AV_PKT_FLAG_KEY;
  packet->stream_index = stream;
  return packet;
}

}  // namespace

std::optional<std::vector<av::PacketPtr>> read_flac_window(Input& input, int stream, TimeWindow window) {
  const AVFormatContext& context = input.context();
  const AVStream& of = *context.streams[stream];
  if (std::string_view(context.iformat->name) != "flac" || of.codecpar->codec_id != AV_CODEC_ID_FLAC ||
      (context.pb->seekable & AVIO_SEEKABLE_NORMAL) == 0) {
    return std::nullopt;
  }
  const std::int64_t file_size = avio_size(context.pb);
  BlockReader reader([&](std::int64_t position, std::span<std::uint8_t> into) { return input.read_at(position, into); });
  const BytesAt bytes_at = std::ref(reader);
  const auto file = read_flac_stream(bytes_at);
  if (!file || file->sample_rate != of.codecpar->sample_rate || of.time_base.num != 1 ||
      of.time_base.den != file->sample_rate || (of.start_time != AV_NOPTS_VALUE && of.start_time != 0)) {
    return std::nullopt;
  }
  const std::int64_t first = std::max<std::int64_t>(to_samples(window.start, file->sample_rate) - 1, 0);
  const std::int64_t end = to_samples(window.end + kBehind, file->sample_rate) + 1;
  const auto found = find_flac_frames(*file, file_size, first, end, bytes_at);
  if (!found || found->frames.empty()) {
    return std::nullopt;
  }
  std::vector<av::PacketPtr> packets;
  packets.reserve(found->frames.size());
  std::span<const std::uint8_t> bytes = found->bytes;
  for (const FlacFrame& frame : found->frames) {
    packets.push_back(make_packet(frame, bytes.first(frame.num_bytes), stream));
    bytes = bytes.subspan(frame.num_bytes);
  }
  return packets;
}

}  // namespace spdl
