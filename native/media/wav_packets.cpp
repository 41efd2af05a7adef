#include "media/wav_packets.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/mathematics.h>
#include <libavutil/opt.h>
}

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace spdl {
namespace {

constexpr std::uint64_t kDefaultPacket = 4096;  // FFmpeg's own size up to 6.0

struct SampleCodec {
  AVCodecID id = AV_CODEC_ID_NONE;
  AVSampleFormat format = AV_SAMPLE_FMT_NONE;  // of decoded samples
};

SampleCodec codec_of(const WavHeader& header) noexcept {
  const auto either = [&](AVCodecID little, AVCodecID big, AVSampleFormat format) {
    return SampleCodec{header.is_big_endian ? big : little, format};
  };
  const bool is_float = header.coding == WavCoding::kFloat;
  switch (header.coding) {
    case WavCoding::kALaw:
      return {AV_CODEC_ID_PCM_ALAW, AV_SAMPLE_FMT_S16};
    case WavCoding::kMuLaw:
      return {AV_CODEC_ID_PCM_MULAW, AV_SAMPLE_FMT_S16};
    default:
      break;
  }
  switch (header.sample_bytes) {
    case 1:
      return {AV_CODEC_ID_PCM_U8, AV_SAMPLE_FMT_U8};
    case 2:
      return either(AV_CODEC_ID_PCM_S16LE, AV_CODEC_ID_PCM_S16BE, AV_SAMPLE_FMT_S16);
    case 3:
      return either(AV_CODEC_ID_PCM_S24LE, AV_CODEC_ID_PCM_S24BE, AV_SAMPLE_FMT_S32);
    case 4:
      return is_float ? either(AV_CODEC_ID_PCM_F32LE, AV_CODEC_ID_PCM_F32BE, AV_SAMPLE_FMT_FLT)
                      : either(AV_CODEC_ID_PCM_S32LE, AV_CODEC_ID_PCM_S32BE, AV_SAMPLE_FMT_S32);
    default:
      return is_float ? either(AV_CODEC_ID_PCM_F64LE, AV_CODEC_ID_PCM_F64BE, AV_SAMPLE_FMT_DBL)
                      : either(AV_CODEC_ID_PCM_S64LE, AV_CODEC_ID_PCM_S64BE, AV_SAMPLE_FMT_S64);
  }
}

// None if there is none.
std::optional<WavHeader> header_of(std::span<const std::uint8_t> start, AVIOContext& io) {
  const bool can_seek = (io.seekable & AVIO_SEEKABLE_NORMAL) != 0;
  const std::int64_t file_size = avio_size(&io);
  std::array<std::uint8_t, 64> room;
  bool has_moved = false;
  const auto bytes_at = [&](std::uint64_t position, std::size_t size) -> std::span<const std::uint8_t> {
    const bool is_there = position <= start.size() && size <= start.size() - position;
    if (is_there || !can_seek || position > std::numeric_limits<std::int64_t>::max()) {
      const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(position, start.size()));
      return start.subspan(from, std::min(size, start.size() - from));
    }
    has_moved = true;
    if (avio_seek(&io, static_cast<std::int64_t>(position), SEEK_SET) < 0) {
      return {};
    }
    const int got = avio_read(&io, room.data(), static_cast<int>(std::min(size, room.size())));
    return std::span(room).first(static_cast<std::size_t>(std::max(got, 0)));
  };
  std::optional<WavHeader> header;
  try {
    header = find_wav_header(bytes_at, file_size >= 0 ? std::optional(static_cast<std::uint64_t>(file_size)) : std::nullopt);
  } catch (const Error&) {
    header.reset();  // FFmpeg says what it makes of it
  }
  if (has_moved) {
    avio_seek(&io, 0, SEEK_SET);
  }
  return header;
}

// Codings that FFmpeg takes for others, or reads only from RIFF. Throws Error(kOpen).
void refuse_coding(const WavHeader& header) {
  struct Refused {
    unsigned format;
    unsigned block_align;  // 0: any
    const char* name;
  };
  // Names: mmreg.h. FFmpeg reads the first one's codes in another order, and the second one's as AMR.
  static constexpr std::array kRefused = {
      Refused{0x40, 0, "G.721 ADPCM"},
      Refused{0x38, 42, "NMS VBXADPCM"},
      Refused{0x38, 62, "NMS VBXADPCM"},
      Refused{0x38, 82, "NMS VBXADPCM"},
  };
  const auto found = std::find_if(kRefused.begin(), kRefused.end(), [&](const Refused& refused) {
    return refused.format == header.audio_format && (refused.block_align == 0 || refused.block_align == header.block_align);
  });
  if (found != kRefused.end()) {
    throw Error(ErrorKind::kOpen, "open",
                std::string("its samples are coded as ") + found->name + " (WAVE format " +
                    std::to_string(header.audio_format) + "), which is not supported; convert it with another program");
  }
  if (header.is_big_endian && header.coding == WavCoding::kOther) {
    throw Error(ErrorKind::kOpen, "open",
                "its samples are coded (WAVE format " + std::to_string(header.audio_format) +
                    ") in a big-endian file (RIFX), which is only supported for PCM, floats, A-law and µ-law; convert it to RIFF");
  }
}

}  // namespace

std::optional<WavPackets> WavPackets::find(std::span<const std::uint8_t> start, AVIOContext& io) {
  const std::optional<WavHeader> header = header_of(start, io);
  constexpr std::uint32_t kMostRate = std::numeric_limits<int>::max();
  if (header) {
    refuse_coding(*header);
  }
  if (!header || header->coding == WavCoding::kOther || header->num_channels == 0 || header->bits_per_sample == 0 ||
      header->sample_rate == 0 || header->sample_rate > kMostRate) {
    return std::nullopt;
  }
  if (header->sample_bytes == 0) {
    throw Error(ErrorKind::kOpen, "open",
                "its samples have " + std::to_string(header->bits_per_sample) + " bits in " +
                    std::to_string(header->num_channels) + " channels, which does not fit into blocks of " +
                    std::to_string(header->block_align) + " bytes; the header of this WAV file is damaged");
  }
  return WavPackets(*header);
}

std::vector<std::uint8_t> WavPackets::plain_header() const {
  std::string header;
  const auto text = [&](std::string_view name) { header += name; };
  const auto number = [&](std::uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) {
      header += static_cast<char>(value >> (8 * i));
    }
  };
  constexpr unsigned kExtensible = 0xfffe;
  const bool is_extensible = header_.audio_format == kExtensible;
  const unsigned coding = header_.coding == WavCoding::kInteger ? 1
                          : header_.coding == WavCoding::kFloat ? 3
                          : header_.coding == WavCoding::kALaw  ? 6
                                                                : 7;
  constexpr std::uint64_t kSizeUnknown = 0xffffffff;
  text("RIFF");
  number(kSizeUnknown, 4);
  text("WAVEfmt ");
  number(is_extensible ? 40 : 16, 4);
  number(is_extensible ? kExtensible : coding, 2);
  number(header_.num_channels, 2);
  number(header_.sample_rate, 4);
  number(header_.byte_rate, 4);
  number(header_.frame_bytes(), 2);
  number(header_.sample_bytes * 8, 2);
  if (is_extensible) {
    number(22, 2);
    number(header_.sample_bytes * 8, 2);
    number(header_.channel_mask, 4);
    number(coding, 2);
    text(std::string_view("\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14));
  }
  text("data");
  number(kSizeUnknown, 4);
  return {header.begin(), header.end()};
}

void WavPackets::complete(AVFormatContext& context) const noexcept {
  AVStream& stream = *context.streams[0];
  AVCodecParameters& parameters = *stream.codecpar;
  const SampleCodec codec = codec_of(header_);
  const auto rate = static_cast<int>(header_.sample_rate);
  parameters.codec_id = codec.id;
  parameters.format = codec.format;
  parameters.sample_rate = rate;
  parameters.block_align = static_cast<int>(header_.frame_bytes());
  parameters.bits_per_coded_sample = static_cast<int>(header_.sample_bytes) * 8;
  parameters.bits_per_raw_sample = header_.sample_bytes == 3 ? 24 : 0;
  parameters.bit_rate = std::int64_t{rate} * parameters.block_align * 8;
  constexpr std::uint64_t kMostStated = std::uint64_t{1} << 60;  // of a pipe that does not say
  if (header_.data_size < kMostStated) {
    stream.start_time = context.start_time = 0;
    stream.duration = static_cast<std::int64_t>(num_samples());
    context.duration = av_rescale(stream.duration, AV_TIME_BASE, rate);
    context.bit_rate = parameters.bit_rate;
  }
}

bool WavPackets::is_codec_of(const AVFormatContext& context) const noexcept {
  return context.streams[0]->codecpar->codec_id == codec_of(header_).id;
}

int WavPackets::read(AVIOContext& io, AVPacket& packet) {
  const std::uint64_t frame = header_.frame_bytes();
  const std::uint64_t left = header_.data_size - std::min(position_, header_.data_size);
  const std::uint64_t wanted = std::min(std::max(kDefaultPacket / frame, std::uint64_t{1}), left / frame) * frame;
  const auto place = static_cast<std::int64_t>(header_.data_offset + position_);
  if (wanted == 0 || has_ended_) {
    return AVERROR_EOF;
  }
  if (avio_tell(&io) != place && avio_seek(&io, place, SEEK_SET) < 0) {
    has_ended_ = true;
    return AVERROR_EOF;
  }
  const int got = av_get_packet(&io, &packet, static_cast<int>(wanted));
  if (got < 0) {
    has_ended_ = got == AVERROR_EOF;
    return got;
  }
  const std::uint64_t whole = static_cast<std::uint64_t>(got) / frame * frame;
  has_ended_ = whole < wanted;
  if (whole == 0) {
    av_packet_unref(&packet);
    return AVERROR_EOF;
  }
  av_shrink_packet(&packet, static_cast<int>(whole));
  packet.flags = (packet.flags & ~AV_PKT_FLAG_CORRUPT) | AV_PKT_FLAG_KEY;
  packet.stream_index = 0;
  packet.pts = packet.dts = static_cast<std::int64_t>(position_ / frame);
  packet.duration = static_cast<std::int64_t>(whole / frame);
  position_ += whole;
  return 0;
}

void WavPackets::seek(std::int64_t sample) noexcept {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(sample, 0));
  position_ = std::min(wanted, num_samples()) * header_.frame_bytes();
  has_ended_ = false;
}

std::optional<std::uint64_t> WavPackets::missing_end() const noexcept {
  const bool is_cut = header_.stated_size && (has_ended_ || *header_.stated_size > header_.data_size);
  return is_cut ? header_.stated_size : std::nullopt;
}

}  // namespace spdl
