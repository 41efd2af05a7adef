#include "media/seeker.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "media/block_reader.h"
#include "media/flv_tags.h"
#include "media/packed_frames.h"
#include "media/packets.h"

namespace spdl {
namespace {

constexpr std::int64_t kAnyTime = std::numeric_limits<std::int64_t>::min();

std::string_view format_of(const Input& input) noexcept { return input.context().iformat->name; }

// The last page of an Ogg file says when it ends, but not when its packets begin. Those before it have to be read first.
bool has_next_page(Input& input) {
  for (std::size_t i = 0;; ++i) {
    const AVPacket* packet = input.peek(i);
    if (packet == nullptr) {
      return false;
    }
    if (packet->pos != input.peek(0)->pos) {
      return true;
    }
  }
}

// Whether more than one stream is of that type, so that the type of a tag does not tell its stream.
bool has_several(const AVFormatContext& context, AVMediaType type) noexcept {
  const std::span streams(context.streams, context.nb_streams);
  return std::count_if(streams.begin(), streams.end(),
                       [&](const AVStream* stream) { return stream->codecpar->codec_type == type; }) > 1;
}

}  // namespace

bool Seeker::has_reliable_times(const Input& input, int stream) noexcept {
  static constexpr std::array<std::string_view, 9> kReliable = {
      "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts", "flac", "w64", "aiff", "au", "caf", "mp3"};
  const std::string_view name = format_of(input);
  const AVCodecID codec = input.context().streams[stream]->codecpar->codec_id;
  if (PackedFrames::are_in(*input.context().streams[stream]->codecpar)) {
    return false;  // their times come from counting (PtsFiller)
  }
  if (name == "wav") {
    return std::string_view(avcodec_get_name(codec)).starts_with("pcm_");  // libav counts blocks of ADPCM as samples
  }
  if (name == "flv") {
    // Packets of the others have no durations, so nothing tells how many of them end before a window.
    return input.context().streams[stream]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO || codec == AV_CODEC_ID_AAC ||
           codec == AV_CODEC_ID_MP3 || std::string_view(avcodec_get_name(codec)).starts_with("pcm_");
  }
  if (name == "ogg") {
    return codec == AV_CODEC_ID_VORBIS || codec == AV_CODEC_ID_OPUS;
  }
  return std::find(kReliable.begin(), kReliable.end(), name) != kReliable.end();
}

// libav's FLV demuxer reads on at any tag, but without an index of key frames it does not find one.
bool Seeker::seek_flv(Input& input, int stream, std::int64_t ticks) {
  const AVFormatContext& context = input.context();
  const AVMediaType type = context.streams[stream]->codecpar->codec_type;
  if ((context.pb->seekable & AVIO_SEEKABLE_NORMAL) == 0 || has_several(context, type)) {
    return false;
  }
  BlockReader reader([&](std::int64_t position, std::span<std::uint8_t> into) { return input.read_at(position, into); });
  const auto place = find_flv_tag(type == AVMEDIA_TYPE_AUDIO ? FlvStream::kAudio : FlvStream::kVideo, ticks,
                                  avio_size(context.pb), std::ref(reader));
  if (!place || !input.seek(-1, kAnyTime, place->position, AVSEEK_FLAG_BYTE)) {
    return false;
  }
  const AVPacket* packet = input.peek(0);
  return packet != nullptr && packet->stream_index == stream && packet->pos == place->position;
}

bool Seeker::seek(Input& input, int stream, std::int64_t ticks) {
  if (format_of(input) == "mp3") {
    return seek_mp3(input, ticks);
  }
  if (format_of(input) == "flv") {
    return seek_flv(input, stream, ticks);
  }
  return input.seek(stream, kAnyTime, ticks, 0) && (format_of(input) != "ogg" || has_next_page(input));
}

Seeker::Mp3File Seeker::look_into_mp3(Input& input) {
  if (!input.is_at_start()) {
    input.reopen();
  }
  Mp3File file;
  const AVPacket* first = input.peek(0);
  if ((input.context().pb->seekable & AVIO_SEEKABLE_NORMAL) == 0 || first == nullptr || first->pos < 0 ||
      bytes_of(*first).size() < file.header.size()) {
    return file;
  }
  std::copy_n(first->data, file.header.size(), file.header.begin());
  if (!parse_mpeg_audio(file.header)) {
    return file;
  }
  file.position = first->pos;
  file.pts = first->pts;
  file.duration = first->duration;
  file.index.emplace(first->pos, file.header);
  const std::int64_t from = std::max<std::int64_t>(first->pos - static_cast<std::int64_t>(kLongestMp3Frame), 0);
  std::array<std::uint8_t, kLongestMp3Frame> room;
  const auto before = std::span(room).first(static_cast<std::size_t>(first->pos - from));
  if (input.read_at(from, before) == before.size()) {
    file.frame_bytes = constant_mp3_frame_bytes(before, file.header).value_or(0);
  }
  return file;
}

// None if there is no frame where it should be.
std::optional<std::int64_t> Seeker::computed_mp3_position(Input& input, std::int64_t number) const {
  // Two bytes and the third up to the padding: what a constant bit rate leaves as it is.
  constexpr std::array<std::uint8_t, 3> kMask = {0xff, 0xff, 0xfd};
  const auto about = mp3_->position + static_cast<std::int64_t>(static_cast<double>(number) * mp3_->frame_bytes);
  for (const std::int64_t position : {about, about - 1, about + 1}) {
    std::array<std::uint8_t, 3> header;
    if (input.read_at(position, header) != header.size()) {
      return std::nullopt;
    }
    std::size_t num_equal = 0;
    while (num_equal < header.size() && ((header[num_equal] ^ mp3_->header[num_equal]) & kMask[num_equal]) == 0) {
      ++num_equal;
    }
    if (num_equal == header.size()) {
      return position;
    }
  }
  return std::nullopt;
}

// libav counts frames from the beginning, unless its index has the wanted one and one after it.
bool Seeker::go_to_mp3_frame(Input& input, std::int64_t number, std::int64_t position, std::int64_t next) const {
  AVStream* stream = input.context().streams[0];
  const std::int64_t pts = mp3_->pts + number * mp3_->duration;
  if (av_add_index_entry(stream, next, pts + mp3_->duration, 0, 0, AVINDEX_KEYFRAME) < 0 ||
      av_add_index_entry(stream, position, pts, 0, 0, AVINDEX_KEYFRAME) < 0 || !input.seek(0, kAnyTime, pts, 0)) {
    return false;
  }
  const AVPacket* packet = input.peek(0);
  return packet != nullptr && packet->pos == position && packet->pts == pts;
}

bool Seeker::seek_mp3(Input& input, std::int64_t ticks) {
  if (!mp3_) {
    mp3_ = look_into_mp3(input);
  }
  if (!mp3_->index || mp3_->duration <= 0 || ticks < mp3_->pts) {
    return false;
  }
  std::int64_t number = (ticks - mp3_->pts) / mp3_->duration;
  if (mp3_->frame_bytes > 0) {
    const auto position = computed_mp3_position(input, number);
    const auto next = computed_mp3_position(input, number + 1);
    if (position && next && go_to_mp3_frame(input, number, *position, *next)) {
      return true;
    }
  }
  BlockReader reader([&](std::int64_t position, std::span<std::uint8_t> into) { return input.read_at(position, into); });
  const BytesAt bytes_at = std::ref(reader);
  auto position = mp3_->index->find(number, bytes_at);
  auto next = mp3_->index->find(number + 1, bytes_at);
  if (!next) {
    number = mp3_->index->num_found() - 2;
    position = mp3_->index->find(number, bytes_at);
    next = mp3_->index->find(number + 1, bytes_at);
  }
  return position && next && go_to_mp3_frame(input, number, *position, *next);
}

}  // namespace spdl
