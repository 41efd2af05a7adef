// The end of an input: what is missing, what lies behind the media, and which packets may be short.

#include "media/input.h"

extern "C" {
#include <libavformat/avio.h>
}

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "av/check.h"
#include "media/packets.h"
#include "media/trailing.h"
#include "media/transport.h"

namespace spdl {
namespace {

using namespace std::string_view_literals;

constexpr const char* kRead = "read";

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Demuxers that read as many bytes as they like, so that the last packet is short, which libav marks as damage.
bool has_short_end(const AVFormatContext& context) noexcept {
  static constexpr std::array kShort = {"adx"sv, "aptx"sv, "aptx_hd"sv, "g722"sv, "g726"sv, "g726le"sv, "sbc"sv};
  return is_one_of(context.iformat->name, kShort);
}

// What a packet has to be a multiple of, in bytes; 1 where that is not known.
int block_bytes(const AVCodecParameters& parameters) noexcept {
  const std::string_view codec = avcodec_get_name(parameters.codec_id);
  const int num_channels = parameters.ch_layout.nb_channels;
  if (codec.starts_with("pcm_") && !codec.ends_with("_planar")) {
    return std::max(av_get_exact_bits_per_sample(parameters.codec_id) * num_channels / 8, 1);
  }
  constexpr int kAdxBlock = 18;
  switch (parameters.codec_id) {
    case AV_CODEC_ID_ADPCM_ADX:
      return std::max(kAdxBlock * num_channels, 1);
    case AV_CODEC_ID_GSM:
      return 33;
    case AV_CODEC_ID_GSM_MS:
      return 65;
    case AV_CODEC_ID_APTX:
      return 4;
    case AV_CODEC_ID_APTX_HD:
      return 6;
    default:
      return codec.starts_with("adpcm_") ? std::max(parameters.block_align, 1) : 1;
  }
}

// Of samples alone, without a header.
bool is_headerless(const AVFormatContext& context) noexcept {
  const std::string_view codec = avcodec_get_name(context.streams[0]->codecpar->codec_id);
  return codec.starts_with("pcm_") && codec.substr(4) == context.iformat->name;
}

}  // namespace

void Input::look_at_end() {
  sound_end_.reset();
  if (context_->nb_streams != 1 || context_->streams[0]->codecpar->codec_type != AVMEDIA_TYPE_AUDIO) {
    return;
  }
  static constexpr std::array kUntilDeclared = {"au"sv, "sox"sv};
  sound_end_ = SoundEnd{is_raw_sound(*context_), has_short_end(*context_), is_headerless(*context_),
                        declared_size_ && is_one_of(context_->iformat->name, kUntilDeclared),
                        block_bytes(*context_->streams[0]->codecpar),
                        context_->iformat->name == "aiff"sv ? 1 : context_->iformat->name == "w64"sv ? 7 : 0};
}

// Takes away what is no sound: what lies behind the place where it ends, and what is no whole sample. False if nothing is left.
bool Input::cut_to_sound(AVPacket& packet) {
  if (!sound_end_ || packet.size == 0) {
    return true;
  }
  int size = packet.size;
  if (sound_end_->is_at_declared_size && packet.pos >= 0) {
    const auto end = static_cast<std::int64_t>(std::min<std::uint64_t>(*declared_size_, INT64_MAX));
    size = static_cast<int>(std::clamp<std::int64_t>(end - packet.pos, 0, size));
  }
  if (sound_end_->is_raw && context_->pb != nullptr && avio_feof(context_->pb) != 0) {
    size = static_cast<int>(size_without_trailer(context_->streams[0]->codecpar->codec_id, packet));
  }
  // Only the last packet is no multiple. If more is missing of it, the file is shorter than it says.
  if (sound_end_->block > sound_end_->padding && size % sound_end_->block <= sound_end_->padding) {
    size -= size % sound_end_->block;
  }
  const bool is_no_damage = sound_end_->is_short || sound_end_->is_headerless;
  const int rest = is_no_damage || config_.tolerate_errors ? size % sound_end_->block : 0;
  size -= rest;
  if (sound_end_->is_short) {
    packet.flags &= ~AV_PKT_FLAG_CORRUPT;
  } else if (rest > 0 && !is_no_damage && !declared_size_ && (packet.flags & AV_PKT_FLAG_CORRUPT) == 0) {
    ++num_errors_;
  }
  if (size < packet.size) {
    av_shrink_packet(&packet, size);
  }
  if (size == 0) {
    av_packet_unref(&packet);
  }
  return size > 0;
}

// A packet that libav has marked as damaged. Throws Error(kDemux) unless it is to be read on.
void Input::settle_damage(AVPacket& packet) {
  const bool is_transport = is_transport_stream(*context_);
  const bool is_whole = (is_transport && is_before_joint(packet)) || (is_endless_ && avio_feof(context_->pb) != 0);
  packet.flags &= ~AV_PKT_FLAG_CORRUPT;
  if (is_whole) {
    return;
  }
  if (config_.tolerate_errors && (is_transport || is_useful_part())) {
    ++num_errors_;
    return;
  }
  av_packet_unref(&packet);
  throw damaged_packet();
}

// Whether decoding the part of a packet that is there makes sense: samples, or frames that a parser has found whole.
bool Input::is_useful_part() {
  if (!sound_end_) {
    return false;
  }
  const std::string_view codec = avcodec_get_name(context_->streams[0]->codecpar->codec_id);
  if (sound_end_->block > 1 || (codec.starts_with("pcm_") && !codec.ends_with("_planar"))) {
    is_ended_ = true;
    return true;
  }
  return peek(0) != nullptr;
}

// Whether an error only says that there is nothing more: some demuxers read the header of the next chunk without looking for
// the end, and that of ADX takes offence at its end mark, which is a block of one channel.
bool Input::is_odd_end(int code, std::int64_t position) const {
  const bool is_odd = code == AVERROR(EIO) || (code == AVERROR_INVALIDDATA && context_->iformat->name == "wsaud"sv);
  if (!is_odd || position < 0) {
    return false;
  }
  const std::int64_t size = avio_size(context_->pb);
  const int part = sound_end_ && sound_end_->is_short ? sound_end_->block - 1 : 0;  // of a block, at most
  return size >= 0 && position >= size - part;
}

// Reads on as far as it takes to tell.
bool Input::is_before_joint(const AVPacket& damaged) {
  std::vector<const AVPacket*> around = {&damaged};
  for (std::size_t i = 0; around.size() < kAroundJoint; ++i) {
    const AVPacket* next = peek(i);
    if (next == nullptr) {
      break;
    }
    if (next->stream_index == damaged.stream_index) {
      around.push_back(next);
    }
  }
  return is_joint(*context_, around);
}

void Input::report(const std::string& reason) {
  if (!config_.tolerate_errors) {
    throw Error(ErrorKind::kDemux, kRead, reason).in(name_).at(stream_, time_);
  }
  ++num_errors_;
}

Error Input::damaged_packet() const {
  return av::make_error(ErrorKind::kDemux, AVERROR_INVALIDDATA, kRead, name_,
                        "the data of a packet is damaged or cut off")
      .at(stream_, time_);
}

// Demuxers take data that cannot be read for the end of it.
void Input::expect_no_failure() const {
  const int failure = context_->pb != nullptr ? context_->pb->error : 0;
  if (failure < 0 && failure != AVERROR_EOF) {
    throw av::make_error(ErrorKind::kDemux, failure, kRead, name_).at(stream_, time_);
  }
}

// libav takes the end of the data for the end of the media, wherever it comes.
void Input::expect_all_data() const {
  if (const auto expected = wav_ ? wav_->missing_end() : std::nullopt) {
    throw Error(ErrorKind::kDemux, kRead,
                "the data ends early: the file should have " + std::to_string(*expected) + " bytes of samples")
        .in(name_)
        .at(stream_, time_);
  }
  if (const auto expected = webp_ ? webp_->missing_end() : std::nullopt) {
    throw Error(ErrorKind::kDemux, kRead, "the data ends early: the file should have " + std::to_string(*expected) + " bytes")
        .in(name_)
        .at(stream_, time_);
  }
  const std::int64_t present = context_->pb != nullptr ? avio_size(context_->pb) : -1;
  if (present < 0) {
    return;
  }
  std::uint64_t expected = declared_size_.value_or(0);
  if (std::string_view(context_->iformat->name).starts_with("mov")) {
    // Its index is complete, and made before the data is there.
    for (unsigned i = 0; i < context_->nb_streams; ++i) {
      AVStream* stream = context_->streams[i];
      const int count = avformat_index_get_entries_count(stream);
      const AVIndexEntry* last = count > 0 ? avformat_index_get_entry(stream, count - 1) : nullptr;
      if (stream->discard != AVDISCARD_ALL && last != nullptr && last->pos >= 0) {
        expected = std::max(expected, static_cast<std::uint64_t>(last->pos) + static_cast<std::uint64_t>(last->size));
      }
    }
  }
  if (expected > static_cast<std::uint64_t>(present)) {
    throw Error(ErrorKind::kDemux, kRead,
                "the data ends early: " + std::to_string(present) + " of " + std::to_string(expected) +
                    " bytes are there")
        .in(name_)
        .at(stream_, time_);
  }
}

}  // namespace spdl
