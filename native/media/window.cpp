#include "media/window.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "media/entry_point.h"

namespace spdl {

void VideoCollector::drop_before(std::size_t index) {
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(index));
  std::erase_if(keys_, [&](std::size_t key) { return key < index; });
  for (std::size_t& key : keys_) {
    key -= index;
  }
}

// A key frame at or before the start: no picture at or after it needs one from before the place where decoding begins.
void VideoCollector::begin_at_key(const AVPacket& key) {
  num_needed_ = 0;
  if (is_clean_entry(key, parameters_)) {
    drop_before(kept_.size());
    begins_clean_ = true;
  } else {
    // By now the decoder has recovered, if it began with an earlier one and its pictures have gone through: it holds 16
    // of them at most (ITU-T H.264, A.3.1).
    constexpr std::size_t kMostHeld = 16;
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
  const double pts = has_pts ? to_seconds(packet->pts, time_base_.num, time_base_.den) : 0;
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
  // Nothing is displayed before it is decoded, so later packets are displayed no earlier than this.
  if (packet->dts != AV_NOPTS_VALUE && to_seconds(packet->dts, time_base_.num, time_base_.den) >= window_.end) {
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
  kept_.resize(num_needed_);
  return std::move(kept_);
}

bool AudioCollector::offer(av::PacketPtr packet) {
  const double time =
      packet->pts != AV_NOPTS_VALUE ? to_seconds(packet->pts, time_base_.num, time_base_.den) : next_time_;
  if (time >= window_.end) {
    return false;
  }
  next_time_ = time + to_seconds(packet->duration, time_base_.num, time_base_.den);
  // Without a duration, nothing tells that it ends before the window.
  const bool is_before = packet->duration > 0 && next_time_ <= window_.start;
  kept_.push_back(std::move(packet));
  if (is_before) {
    num_before_ = kept_.size();
    // Now and then, so that each packet is moved once at most.
    if (num_before_ > 2 * num_preroll_ + 64) {
      kept_.erase(kept_.begin(), kept_.end() - static_cast<std::ptrdiff_t>(num_preroll_));
      num_before_ = num_preroll_;
      from_start_ = true;
    }
  }
  return true;
}

bool AudioCollector::began_too_late() const noexcept { return !from_start_ && num_before_ < num_preroll_; }

std::vector<av::PacketPtr> AudioCollector::finish() {
  if (num_before_ == kept_.size()) {
    kept_.clear();
  } else if (num_before_ > num_preroll_) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(num_before_ - num_preroll_));
  }
  return std::move(kept_);
}

std::size_t audio_preroll(const AVCodecParameters&) noexcept { return 8; }

}  // namespace spdl
