#include "media/seeker.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "media/mp3_rate.h"
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

}  // namespace

bool Seeker::has_reliable_times(const Input& input, int stream) noexcept {
  static constexpr std::array<std::string_view, 9> kReliable = {
      "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts", "flac", "w64", "aiff", "au", "caf", "mp3"};
  const std::string_view name = format_of(input);
  const AVCodecID codec = input.context().streams[stream]->codecpar->codec_id;
  if (name == "wav") {
    return std::string_view(avcodec_get_name(codec)).starts_with("pcm_");  // libav counts blocks of ADPCM as samples
  }
  if (name == "ogg") {
    return codec == AV_CODEC_ID_VORBIS || codec == AV_CODEC_ID_OPUS;
  }
  return std::find(kReliable.begin(), kReliable.end(), name) != kReliable.end();
}

bool Seeker::seek(Input& input, int stream, std::int64_t ticks) {
  if (format_of(input) == "mp3") {
    return seek_mp3(input, ticks);
  }
  return input.seek(stream, kAnyTime, ticks, 0) && (format_of(input) != "ogg" || has_next_page(input));
}

Seeker::Mp3Frames Seeker::find_mp3_frames(Input& input) {
  if (!input.is_at_start()) {
    input.reopen();
  }
  Mp3Frames frames;
  const AVPacket* first = input.peek(0);
  if ((input.context().pb->seekable & AVIO_SEEKABLE_NORMAL) == 0 || first == nullptr || first->pos < 0) {
    return frames;
  }
  frames.position = first->pos;
  frames.pts = first->pts;
  frames.duration = first->duration;
  if (first->size >= 3) {
    std::copy_n(first->data, 3, frames.header.begin());
    frames.header[2] &= 0xfd;  // all but the padding
  }
  const std::int64_t from = std::max<std::int64_t>(first->pos - static_cast<std::int64_t>(kLongestMp3Frame), 0);
  std::array<std::uint8_t, kLongestMp3Frame> room;
  const auto before = std::span(room).first(static_cast<std::size_t>(first->pos - from));
  if (input.read_at(from, before) == before.size()) {
    frames.num_bytes = bytes_of_mp3_frame(before, bytes_of(*first)).value_or(0);
  }
  return frames;
}

// None if there is no frame where it should be.
std::optional<std::int64_t> Seeker::position_of_mp3_frame(Input& input, std::int64_t number) const {
  const auto about = mp3_frames_->position + static_cast<std::int64_t>(static_cast<double>(number) * mp3_frames_->num_bytes);
  for (const std::int64_t position : {about, about - 1, about + 1}) {
    std::array<std::uint8_t, 3> header;
    if (input.read_at(position, header) != header.size()) {
      return std::nullopt;
    }
    header[2] &= 0xfd;
    if (header == mp3_frames_->header) {
      return position;
    }
  }
  return std::nullopt;
}

// libav counts frames from the beginning, unless its index has the wanted one and one after it.
bool Seeker::seek_mp3(Input& input, std::int64_t ticks) {
  if (!mp3_frames_) {
    mp3_frames_ = find_mp3_frames(input);
  }
  const Mp3Frames& frames = *mp3_frames_;
  if (frames.num_bytes <= 0 || frames.duration <= 0 || ticks < frames.pts) {
    return false;
  }
  const std::int64_t number = (ticks - frames.pts) / frames.duration;
  std::int64_t position = 0;
  for (const std::int64_t each : {number + 1, number}) {
    const auto found = position_of_mp3_frame(input, each);
    if (!found || av_add_index_entry(input.context().streams[0], *found, frames.pts + each * frames.duration, 0, 0,
                                     AVINDEX_KEYFRAME) < 0) {
      return false;
    }
    position = *found;
  }
  const std::int64_t wanted = frames.pts + number * frames.duration;
  if (!input.seek(0, kAnyTime, wanted, 0)) {
    return false;
  }
  const AVPacket* packet = input.peek(0);
  return packet != nullptr && packet->pos == position && packet->pts == wanted;
}

}  // namespace spdl
