#include "media/pts_filler.h"

extern "C" {
#include <libavutil/mathematics.h>
}

#include <algorithm>
#include <utility>

namespace spdl {
namespace {

std::int64_t ticks_of_frame(const Codec& codec, AVRational rate) noexcept {
  const bool is_known = rate.num > 0 && rate.den > 0 && codec.time_base.num > 0;
  return is_known ? std::max<std::int64_t>(av_rescale_q(1, av_inv_q(rate), codec.time_base), 1) : 1;
}

// How many pictures are decoded ahead of the one displayed first, at most.
std::size_t delay_of(const AVCodecParameters& parameters) noexcept {
  return static_cast<std::size_t>(std::max(parameters.video_delay, 1));
}

}  // namespace

PtsFiller::PtsFiller(const Codec& codec, const Stream& stream) noexcept
    : parameters_(*codec.parameters),
      frame_ticks_(ticks_of_frame(codec, stream.frame_rate.value_or(codec.frame_rate))),
      stream_(stream) {
  if (PackedFrames::are_in(parameters_)) {
    packed_.emplace();
  }
}

PtsFiller::Mode PtsFiller::mode_for(const AVPacket& first) const noexcept {
  const AVCodecID id = parameters_.codec_id;
  if (stream_.from_start && (first.pts == AV_NOPTS_VALUE || !stream_.knows_display || packed_) && DisplayOrder::is_known(id)) {
    return Mode::kDisplayOrder;
  }
  return id == AV_CODEC_ID_MPEG1VIDEO || id == AV_CODEC_ID_MPEG2VIDEO ? Mode::kReferencesOnly : Mode::kPassThrough;
}

void PtsFiller::add_decoding_time(const AVPacket& packet) {
  const bool counts = stream_.frame_rate.has_value();
  const std::int64_t next = end_ != AV_NOPTS_VALUE ? end_ : 0;
  const std::int64_t time = packet.dts != AV_NOPTS_VALUE && !counts ? packet.dts : next;
  if (times_.empty() && first_time_ == 0) {
    start_ = time;
  }
  times_.push_back(time);
  end_ = time + (packet.duration > 0 && !counts ? packet.duration : frame_ticks_);
}

void PtsFiller::push(av::PacketPtr packet) {
  if (!packed_) {
    push_one(std::move(packet));
    return;
  }
  for (av::PacketPtr& each : packed_->split(std::move(packet))) {
    push_one(std::move(each));
  }
}

void PtsFiller::push_one(av::PacketPtr packet) {
  if (mode_ == Mode::kUndecided) {
    mode_ = mode_for(*packet);
    if (mode_ == Mode::kDisplayOrder) {
      order_.emplace(parameters_);
    }
  }
  if (mode_ == Mode::kDisplayOrder) {
    add_decoding_time(*packet);
    order_->push(*packet);
  } else if (mode_ == Mode::kReferencesOnly && packet->dts != AV_NOPTS_VALUE) {
    const bool is_decoded_ahead = packet->pts == AV_NOPTS_VALUE || packet->pts != packet->dts;
    if (is_decoded_ahead && !packets_.empty() && packets_.front().packet->pts == AV_NOPTS_VALUE) {
      packets_.front().packet->pts = packet->dts;
    }
    end_ = packet->dts + packet->duration;
  }
  packets_.push_back({std::move(packet)});
  assign_times();
}

void PtsFiller::assign_times() {
  while (order_) {
    const std::optional<std::size_t> number = order_->pop();
    if (!number) {
      return;
    }
    Waiting& displayed = packets_[*number - num_popped_];
    displayed.packet->pts = times_[num_displayed_++ - first_time_];
    displayed.has_time = true;
  }
}

// No picture is displayed before it: later by as much as pictures are decoded ahead.
std::int64_t PtsFiller::decoding_time(std::size_t number) const noexcept {
  const std::size_t delay = delay_of(parameters_);
  if (number >= delay) {
    return times_[number - delay - first_time_];
  }
  return start_ - static_cast<std::int64_t>(delay - number) * frame_ticks_;
}

void PtsFiller::finish() {
  if (packed_) {
    if (av::PacketPtr last = packed_->finish()) {
      push_one(std::move(last));
    }
  }
  if (mode_ == Mode::kDisplayOrder) {
    order_->finish();
    assign_times();
    return;
  }
  if (mode_ == Mode::kReferencesOnly && !packets_.empty() && packets_.front().packet->pts == AV_NOPTS_VALUE) {
    packets_.front().packet->pts = end_;
  }
  mode_ = Mode::kPassThrough;
}

av::PacketPtr PtsFiller::pop() {
  if (packets_.empty()) {
    return nullptr;
  }
  AVPacket& next = *packets_.front().packet;
  if (mode_ == Mode::kDisplayOrder) {
    if (!packets_.front().has_time) {
      return nullptr;
    }
    next.dts = std::min(decoding_time(num_popped_), next.pts);
    ++num_popped_;
    const std::size_t delay = delay_of(parameters_);
    while (first_time_ + delay < num_popped_ && first_time_ < num_displayed_) {
      times_.pop_front();
      ++first_time_;
    }
  } else if (mode_ == Mode::kReferencesOnly && next.pts == AV_NOPTS_VALUE && next.dts != AV_NOPTS_VALUE) {
    return nullptr;
  }
  av::PacketPtr packet = std::move(packets_.front().packet);
  packets_.pop_front();
  return packet;
}

}  // namespace spdl
