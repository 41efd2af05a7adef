#include "media/trailing.h"

extern "C" {
#include <libavcodec/ac3_parser.h>
#include <libavutil/crc.h>
}

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "media/packets.h"

namespace spdl {
namespace {

using namespace std::string_view_literals;

// How tags begin that stand behind the sound: ID3v1 and its extension, APEv2, Lyrics3, ID3v2.4 with a footer.
constexpr std::array kTags = {"TAG"sv, "APETAGEX"sv, "LYRICSBEGIN"sv, "ID3"sv};

bool is_trailer(Bytes bytes) noexcept {
  return std::any_of(kTags.begin(), kTags.end(), [&](std::string_view tag) { return has_name(bytes, 0, tag); }) ||
         std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

std::size_t ac3_size(Bytes bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    std::uint8_t bitstream_id = 0;
    std::uint16_t size = 0;
    const Bytes rest = bytes.subspan(at);
    if (av_ac3_parse_header(rest.data(), rest.size(), &bitstream_id, &size) < 0 || size == 0 || size > rest.size()) {
      break;
    }
    at += size;
  }
  return at > 0 && is_trailer(bytes.subspan(at)) ? at : bytes.size();
}

// A frame ends with a checksum of all of it, with which the remainder is 0 (RFC 9639, section 9.3).
std::size_t flac_size(Bytes bytes) noexcept {
  const AVCRC* table = av_crc_get_table(AV_CRC_16_ANSI);
  const auto is_end = [&](std::size_t at) { return at > 0 && av_crc(table, 0, bytes.data(), at) == 0; };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const std::string_view tag : kTags) {
    for (std::size_t at = text.find(tag); at != std::string_view::npos; at = text.find(tag, at + 1)) {
      if (is_end(at)) {
        return at;
      }
    }
  }
  // Zeros leave a remainder of 0 as it is, so how many of them are the end of the checksum is unknown. Decoders ignore so few.
  const std::size_t end = text.find_last_not_of('\0') + 1;
  constexpr std::size_t kChecksum = 2;
  if (end + kChecksum < bytes.size() && is_end(end)) {
    return end + kChecksum;
  }
  return bytes.size();
}

}  // namespace

bool is_raw_sound(const AVFormatContext& context) noexcept {
  static constexpr std::array kRaw = {"flac"sv, "mp3"sv, "aac"sv, "ac3"sv, "eac3"sv, "loas"sv};
  return context.nb_streams > 0 && std::find(kRaw.begin(), kRaw.end(), context.iformat->name) != kRaw.end();
}

std::size_t size_without_trailer(AVCodecID codec, const AVPacket& packet) noexcept {
  const Bytes bytes = bytes_of(packet);
  if (is_trailer(bytes)) {
    return 0;
  }
  switch (codec) {
    case AV_CODEC_ID_AC3:
    case AV_CODEC_ID_EAC3:
      return ac3_size(bytes);
    case AV_CODEC_ID_FLAC:
      return flac_size(bytes);
    default:
      return bytes.size();
  }
}

}  // namespace spdl
