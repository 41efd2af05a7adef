#include "media/transport.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace spdl {
namespace {

constexpr int kPacketSize = 188;

// What the header of a transport packet says (2.4.3.2).
struct Header {
  bool is_valid = false;
  bool starts_payload = false;
  bool has_adaptation = false;  // stuffing, where it is the last packet of its payload
  bool has_payload = false;
  int pid = 0;
  int counter = 0;
};

Header read_header(AVIOContext& io) noexcept {
  std::array<std::uint8_t, kPacketSize> bytes;
  Header header;
  if (avio_read(&io, bytes.data(), kPacketSize) != kPacketSize || bytes[0] != 0x47) {
    return header;
  }
  header.is_valid = true;
  header.starts_payload = (bytes[1] & 0x40) != 0;
  header.pid = (bytes[1] & 0x1f) << 8 | bytes[2];
  header.has_adaptation = (bytes[3] & 0x20) != 0;
  header.has_payload = (bytes[3] & 0x10) != 0;
  header.counter = bytes[3] & 0xf;
  return header;
}

// A payload that begins at a transport packet, which holds a packet of its stream.
struct Payload {
  bool counts = false;          // no transport packet of it is missing in the middle
  bool is_before_jump = false;  // whether the counter jumps behind it
  bool is_stuffed = false;      // whether its end fills a transport packet up, as all but one of 184 ends have to be
};

Payload read_payload(AVIOContext& io, std::int64_t position) noexcept {
  if (position < 0 || avio_seek(&io, position, SEEK_SET) != position) {
    return {};
  }
  const Header first = read_header(io);
  Header last = first;
  if (!first.is_valid || !first.starts_payload) {
    return {};
  }
  for (;;) {
    const Header header = read_header(io);
    if (!header.is_valid) {
      return {};
    }
    if (header.pid != first.pid || !header.has_payload) {
      continue;
    }
    const bool jumps = header.counter != ((last.counter + 1) & 0xf);
    if (header.starts_payload) {
      return {true, jumps, last.has_adaptation};
    }
    if (jumps) {
      return {};
    }
    last = header;
  }
}

// Whether two packets can meet at a joint: time starts anew, or nothing is missing.
bool can_meet(const AVStream& stream, const Payload& payload, const AVPacket& last, const AVPacket& next) noexcept {
  if (last.dts == AV_NOPTS_VALUE || next.dts == AV_NOPTS_VALUE) {
    return false;
  }
  const bool is_video = stream.codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
  if (is_video && (next.flags & AV_PKT_FLAG_KEY) == 0) {
    return false;
  }
  const std::int64_t step = next.dts - last.dts;
  return step <= 0 || (payload.is_stuffed && last.duration > 0 && 2 * step <= 3 * last.duration);
}

}  // namespace

bool is_transport_stream(const AVFormatContext& context) noexcept {
  return std::string_view(context.iformat->name) == "mpegts";
}

bool is_joint(AVFormatContext& context, std::span<const AVPacket* const> packets) noexcept {
  AVIOContext& io = *context.pb;
  if ((io.seekable & AVIO_SEEKABLE_NORMAL) == 0) {
    return false;
  }
  const std::int64_t position = avio_tell(&io);
  bool has_jump = false;
  bool is_complete = true;
  for (std::size_t i = 0; i + 1 < packets.size() && is_complete; ++i) {
    const Payload payload = read_payload(io, packets[i]->pos);
    is_complete = payload.counts;
    if (is_complete && payload.is_before_jump) {
      has_jump = true;
      is_complete = can_meet(*context.streams[packets[i]->stream_index], payload, *packets[i], *packets[i + 1]);
    }
  }
  return avio_seek(&io, position, SEEK_SET) == position && has_jump && is_complete;
}

}  // namespace spdl
