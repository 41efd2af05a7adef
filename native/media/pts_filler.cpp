#include "media/pts_filler.h"

#include <utility>

namespace spdl {

PtsFiller::PtsFiller(const AVCodecParameters& parameters) noexcept
    : fills_(parameters.codec_id == AV_CODEC_ID_MPEG1VIDEO || parameters.codec_id == AV_CODEC_ID_MPEG2VIDEO) {}

void PtsFiller::push(av::PacketPtr packet) {
  if (fills_ && packet->dts != AV_NOPTS_VALUE) {
    const bool is_decoded_ahead = packet->pts == AV_NOPTS_VALUE || packet->pts != packet->dts;
    if (is_decoded_ahead && !packets_.empty() && packets_.front()->pts == AV_NOPTS_VALUE) {
      packets_.front()->pts = packet->dts;
    }
    end_ = packet->dts + packet->duration;
  }
  packets_.push_back(std::move(packet));
}

void PtsFiller::finish() {
  if (fills_ && !packets_.empty() && packets_.front()->pts == AV_NOPTS_VALUE) {
    packets_.front()->pts = end_;
  }
  fills_ = false;
}

av::PacketPtr PtsFiller::pop() {
  if (packets_.empty()) {
    return nullptr;
  }
  const AVPacket& next = *packets_.front();
  if (fills_ && next.pts == AV_NOPTS_VALUE && next.dts != AV_NOPTS_VALUE) {
    return nullptr;
  }
  av::PacketPtr packet = std::move(packets_.front());
  packets_.pop_front();
  return packet;
}

}  // namespace spdl
