#include "media/webp_packets.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>

#include "media/packets.h"

namespace spdl {
namespace {

constexpr std::size_t kFileHeader = 12;
constexpr std::size_t kChunkHeader = 8;

}  // namespace

std::optional<WebpPackets> WebpPackets::find(std::span<const std::uint8_t> start) noexcept {
  const auto header = animation_header(start);
  return header ? std::optional(WebpPackets(*header, std::uint64_t{8} + little_endian(start, 4, 4))) : std::nullopt;
}

void WebpPackets::complete(AVFormatContext& context) const noexcept {
  AVStream& stream = *context.streams[0];
  AVCodecParameters& parameters = *stream.codecpar;
  parameters.codec_id = AV_CODEC_ID_WEBP;
  parameters.width = header_.width;
  parameters.height = header_.height;
  parameters.format = header_.has_alpha ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
  stream.time_base = {1, 1000};
  stream.start_time = context.start_time = 0;
  stream.avg_frame_rate = stream.r_frame_rate = {0, 1};  // each frame has a duration of its own
}

// RFC 9649, section 2.3.
int WebpPackets::read(AVIOContext& io, AVPacket& packet) {
  if (avio_tell(&io) < static_cast<std::int64_t>(kFileHeader)) {
    avio_skip(&io, static_cast<std::int64_t>(kFileHeader) - avio_tell(&io));
  }
  while (static_cast<std::uint64_t>(avio_tell(&io)) + kChunkHeader <= size_) {
    std::array<std::uint8_t, kChunkHeader> header;
    const int got = avio_read(&io, header.data(), static_cast<int>(header.size()));
    if (got < static_cast<int>(header.size())) {
      is_cut_ = got >= 0 || got == AVERROR_EOF;
      return got < 0 ? got : AVERROR_EOF;
    }
    const std::uint64_t length = little_endian(header, 4, 4);
    if (!has_name(header, 0, "ANMF")) {
      if (avio_skip(&io, static_cast<std::int64_t>(length + length % 2)) < 0) {
        return AVERROR_EOF;
      }
      continue;
    }
    if (length > std::numeric_limits<int>::max() - kChunkHeader) {
      return AVERROR_INVALIDDATA;
    }
    const std::int64_t position = avio_tell(&io) - static_cast<std::int64_t>(kChunkHeader);
    // Behind the header, so that no more is allocated than is there.
    int code = av_new_packet(&packet, static_cast<int>(header.size()));
    if (code < 0) {
      return code;
    }
    std::memcpy(packet.data, header.data(), header.size());
    code = av_append_packet(&io, &packet, static_cast<int>(length));
    if (code < 0) {
      av_packet_unref(&packet);
      return code;
    }
    if (static_cast<std::uint64_t>(code) < length) {
      packet.flags |= AV_PKT_FLAG_CORRUPT;
    }
    if (length % 2 != 0) {
      avio_skip(&io, 1);
    }
    packet.stream_index = 0;
    packet.pos = position;
    packet.pts = packet.dts = time_;
    auto frame = animation_frame(bytes_of(packet));
    if (!frame) {
      packet.flags |= AV_PKT_FLAG_CORRUPT;
      return 0;
    }
    frame->picture = {};
    before_is_key_ = !before_ || is_key_frame(*frame, *before_, before_is_key_, header_.width, header_.height);
    packet.flags |= before_is_key_ ? AV_PKT_FLAG_KEY : 0;
    packet.duration = frame->duration;
    time_ += frame->duration;
    before_ = frame;
    return 0;
  }
  return AVERROR_EOF;
}

}  // namespace spdl
