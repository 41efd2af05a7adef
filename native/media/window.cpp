#include "media/window.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "media/entry_point.h"
#include "media/sound_bounds.h"

namespace spdl {
namespace {

// Pictures that wait for their turn in a decoder, at most (ITU-T H.264, A.3.1).
constexpr std::size_t kMostHeld = 16;

}  // namespace

void VideoCollector::drop_before(std::size_t index) {
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(index));
  std::erase_if(keys_, [&](std::size_t key) { return key < index; });
  for (std::size_t& key : keys_) {
    key -= index;
  }
}

// Whether no later packet has a picture in the window.
bool VideoCollector::is_past_end(const AVPacket& packet) const noexcept {
  if (!stream_.has_reliable_dts) {
    // A picture is displayed before at most 16 of those that are decoded before it (ITU-T H.264, E.2.1:
    // max_num_reorder_frames). Each may be in two packets, one for each field.
    constexpr std::size_t kMostReordered = 32;
    return num_late_ > kMostReordered;
  }
  // Nothing is displayed before it is decoded, so later packets are displayed no earlier than this one is decoded.
  return packet.dts != AV_NOPTS_VALUE && packet.dts >= window_.end;
}

// Otherwise pictures of the window are dropped if the data ends before they had their turn; see entry_point.h.
bool VideoCollector::starts_clean() const noexcept {
  return begins_clean_ || kept_.empty() || is_clean_entry(*kept_.front(), parameters_);
}

// A key frame at or before the start: no picture at or after it needs one from before the place where decoding begins.
void VideoCollector::begin_at_key(const AVPacket& key) {
  num_needed_ = 0;
  if (is_clean_entry(key, parameters_)) {
    drop_before(kept_.size());
    begins_clean_ = true;
  } else {
    // By now the decoder has recovered, if it began with an earlier one and its pictures have gone through.
    const auto later = std::find_if(keys_.rbegin(), keys_.rend(),
                                    [&](std::size_t earlier) { return earlier + kMostHeld <= kept_.size(); });
    if (later != keys_.rend()) {
      drop_before(*later);
      begins_clean_ = true;
    }
  }
  keys_.push_back(kept_.size());
}

bool VideoCollector::offer(av::PacketPtr packet) {
  const bool has_pts = packet->pts != AV_NOPTS_VALUE;
  const std::int64_t pts = has_pts ? packet->pts : 0;
  if ((packet->flags & AV_PKT_FLAG_KEY) != 0) {
    if (has_pts && pts <= window_.start) {
      begin_at_key(*packet);
    } else if (!has_key_) {
      began_too_late_ = true;
      return false;
    }
    has_key_ = true;
  }
  if (!has_key_) {
    return true;
  }
  if (has_pts && pts >= window_.end) {
    ++num_late_;
  }
  if (is_past_end(*packet) && (starts_clean() || num_behind_++ == kMostHeld)) {
    return false;
  }
  // A second field has no time of its own.
  const bool continues = !has_pts && num_needed_ > 0 && num_needed_ == kept_.size();
  const bool is_wanted = has_pts && window_.contains(pts) && (packet->flags & AV_PKT_FLAG_DISCARD) == 0;
  kept_.push_back(std::move(packet));
  if (continues || is_wanted) {
    num_needed_ = kept_.size();
  }
  return true;
}

std::vector<av::PacketPtr> VideoCollector::finish() {
  kept_.resize(std::min(kept_.size(), num_needed_ + (num_needed_ == 0 || starts_clean() ? 0 : kMostHeld)));
  return std::move(kept_);
}

namespace {

// Of a packet whose container does not say how long it lasts, or rounds that down by up to a tick.
void fill_in_duration(AVPacket& packet, std::int64_t next_pts) noexcept {
  std::int64_t distance = 0;
  if (packet.pts == AV_NOPTS_VALUE || next_pts == AV_NOPTS_VALUE ||
      __builtin_sub_overflow(next_pts, packet.pts, &distance) || distance <= 0) {
    return;
  }
  if (packet.duration <= 0 || distance - packet.duration == 1) {
    packet.duration = distance;
  }
}

}  // namespace

bool AudioCollector::offer(av::PacketPtr packet) {
  if (packet->pts == AV_NOPTS_VALUE && times_.empty() && !from_start_) {
    return true;  // after a seek, nothing tells when it is
  }
  const std::optional<int> num_samples = counted_ != nullptr ? num_kept_samples_in(*packet, *counted_) : std::nullopt;
  if (!num_samples) {
    counted_ = nullptr;
  }
  const double time = counted_ != nullptr || packet->pts == AV_NOPTS_VALUE
                          ? next_time_
                          : to_seconds(packet->pts, time_base_.num, time_base_.den);
  if (!kept_.empty()) {
    const bool was_unknown = kept_.back()->duration <= 0;
    fill_in_duration(*kept_.back(), packet->pts);
    if (was_unknown && kept_.back()->duration > 0 && time <= window_.start) {
      num_before_ = kept_.size();
    }
  }
  constexpr double kBehind = 0.01;
  if (time >= window_.end + kBehind || (time >= window_.end && !has_some_)) {
    return false;
  }
  next_time_ = time + to_seconds(packet->duration, time_base_.num, time_base_.den);
  if (counted_ != nullptr) {
    num_counted_ += *num_samples;
    next_time_ = count_start_ + to_seconds(num_counted_, 1, counted_->sample_rate);
  }
  // Without a duration, nothing tells that it ends before the window.
  const bool is_before = (counted_ != nullptr || packet->duration > 0) && next_time_ <= window_.start;
  kept_.push_back(std::move(packet));
  times_.push_back(time);
  if (!is_before) {
    has_some_ = true;
    return true;
  }
  num_before_ = kept_.size();
  // Seldom, so that packets are moved few times.
  constexpr std::size_t kManyPackets = 1024;
  if (const auto first = first_needed(); first && *first > kManyPackets) {
    drop(*first);
  }
  return true;
}

std::optional<std::size_t> AudioCollector::first_needed() const noexcept {
  if (num_before_ < preroll_.num_packets) {
    return std::nullopt;
  }
  const double end = num_before_ < times_.size() ? times_[num_before_] : next_time_;
  const auto last = times_.begin() + static_cast<std::ptrdiff_t>(num_before_ - preroll_.num_packets) + 1;
  const auto first = std::upper_bound(times_.begin(), std::min(last, times_.end()), end - preroll_.seconds);
  if (first == times_.begin()) {
    return std::nullopt;
  }
  return first_with_bytes(static_cast<std::size_t>(first - times_.begin()) - 1);
}

std::optional<std::size_t> AudioCollector::first_with_bytes(std::size_t last) const noexcept {
  if (preroll_.num_bytes == 0) {
    return last;
  }
  std::size_t num_bytes = 0;
  for (std::size_t i = num_before_ - std::min(num_before_, preroll_.num_after_bytes); i-- > 0;) {
    const auto size = static_cast<std::size_t>(kept_[i]->size);
    num_bytes += size - std::min(size, preroll_.overhead_per_packet);
    if (num_bytes >= preroll_.num_bytes) {
      return std::min(i, last);
    }
  }
  return std::nullopt;
}

void AudioCollector::drop(std::size_t count) {
  for (std::size_t i = 0; i < count && counted_ != nullptr; ++i) {
    num_passed_ += num_kept_samples_in(*kept_[i], *counted_).value_or(0);
  }
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  times_.erase(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(count));
  num_before_ -= count;
  num_dropped_ += count;
}

std::vector<av::PacketPtr> AudioCollector::finish() {
  if (num_before_ == kept_.size()) {
    drop(kept_.size());
  } else {
    drop(first_needed().value_or(0));
  }
  if (kept_.size() > 1 && kept_.back()->duration <= 0) {
    kept_.back()->duration = kept_[kept_.size() - 2]->duration;
  }
  return std::move(kept_);
}

namespace {

// How much of the past is in the state of a decoder.
enum class Memory { kNone, kPackets, kAll };

// Measured against decoding everything (tests/differential/sound): with the pre-roll below, all samples are equal, but for the
// decoder's own noise. Others, such as G.722, Speex and AMR, predict from all that came before.
Memory memory_of(AVCodecID codec) noexcept {
  switch (codec) {
    // Each packet is decoded by itself.
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_ALAC:
      return Memory::kNone;
    case AV_CODEC_ID_AAC:
    case AV_CODEC_ID_AAC_LATM:
    case AV_CODEC_ID_AC3:
    case AV_CODEC_ID_DTS:
    case AV_CODEC_ID_MP1:
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
    case AV_CODEC_ID_OPUS:
    case AV_CODEC_ID_VORBIS:
    case AV_CODEC_ID_WMAV1:
    case AV_CODEC_ID_WMAV2:
    case AV_CODEC_ID_TTA:
    case AV_CODEC_ID_WAVPACK:
    case AV_CODEC_ID_MLP:
    case AV_CODEC_ID_TRUEHD:
    // Each block states where it begins.
    case AV_CODEC_ID_ADPCM_IMA_WAV:
    case AV_CODEC_ID_ADPCM_MS:
    case AV_CODEC_ID_ADPCM_SWF:
      return Memory::kPackets;
    default:
      return std::string_view(avcodec_get_name(codec)).starts_with("pcm_") ? Memory::kNone : Memory::kAll;
  }
}

}  // namespace

std::optional<Preroll> preroll_of(const AVCodecParameters& parameters, SoundUse use) noexcept {
  const Memory memory = memory_of(parameters.codec_id);
  if (memory == Memory::kAll) {
    return std::nullopt;
  }
  // From then on all samples are equal. Opus keeps on correcting its prediction of energies: 9e-3 off after 0.16 s, 3e-4 after
  // 0.26 s, 8e-6 after 0.66 s, equal after 1.16 s.
  Preroll preroll;
  // One packet before the window tells that nothing of it was passed over.
  preroll.num_packets = memory == Memory::kNone && use == SoundUse::kExactly ? 1 : 10;
  if (parameters.codec_id == AV_CODEC_ID_VORBIS && use == SoundUse::kExactly) {
    preroll.num_packets = 2;  // a packet is added to the end of the one before it (Vorbis I, section 1.3.2), and to no other
  }
  if (parameters.codec_id == AV_CODEC_ID_OPUS) {
    preroll.seconds = 1.3;
  }
  if (parameters.codec_id == AV_CODEC_ID_MP3) {
    // A frame may begin up to 511 bytes before its packet, 255 at the lower sample rates, and only the bytes behind header,
    // checksum and side information count (ISO/IEC 11172-3, 2.4.1.7; ISO/IEC 13818-3, 2.4.1.7). At low bit rates, that is
    // many packets. Before the wanted frame, two others have to be right, as frames overlap.
    const bool is_mono = parameters.ch_layout.nb_channels == 1;
    const bool is_mpeg1 = parameters.sample_rate >= 32000;
    preroll.overhead_per_packet = 6 + (is_mpeg1 ? (is_mono ? 17 : 32) : (is_mono ? 9 : 17));
    preroll.num_bytes = is_mpeg1 ? 511 : 255;
    preroll.num_after_bytes = 2;
  }
  return preroll;
}

}  // namespace spdl
