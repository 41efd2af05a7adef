#include "media/flac_packets.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>

#include "av/compat.h"

namespace spdl {
namespace {

// Of STREAMINFO (RFC 9639, section 8.2), which libavformat gives as extra data, from any container; 0 if it is not that.
int bits_of_samples(const AVCodecContext& context) noexcept {
  constexpr int kStreamInfo = 34;
  if (context.extradata == nullptr || context.extradata_size != kStreamInfo) {
    return 0;
  }
  return ((context.extradata[12] & 1) << 4 | context.extradata[13] >> 4) + 1;
}

}  // namespace

std::optional<FlacPackets> FlacPackets::of(AVCodecContext& context, const av::Options& options) {
  const auto is_known = [](const auto& option) { return option.first == "err_detect" || option.first == "max_pixels"; };
  const int num_bits = bits_of_samples(context);
  const AVSampleFormat expected = num_bits <= 16 ? AV_SAMPLE_FMT_S16 : AV_SAMPLE_FMT_S32;
  if (context.codec_id != AV_CODEC_ID_FLAC || context.codec != avcodec_find_decoder(AV_CODEC_ID_FLAC) ||
      context.thread_count != 1 || !std::ranges::all_of(options, is_known) || num_bits == 0 ||
      context.sample_fmt != expected || context.sample_rate < 1 || context.ch_layout.nb_channels < 1 ||
      context.ch_layout.nb_channels > kMostFlacChannels) {
    return std::nullopt;
  }
  return FlacPackets(context, FlacDecoder(context.sample_rate, context.ch_layout.nb_channels, num_bits));
}

av::FramePtr FlacPackets::decode(const AVPacket& packet) {
  const bool has_time = packet.pts != AV_NOPTS_VALUE && (packet.dts == packet.pts || packet.dts == AV_NOPTS_VALUE);
  // Side data may say which samples to leave out.
  if (!has_time || packet.size < 1 || packet.side_data_elems > 0 || (packet.flags & AV_PKT_FLAG_DISCARD) != 0) {
    return nullptr;
  }
  const bool checks_sum = (context_->err_recognition & (AV_EF_CRCCHECK | AV_EF_COMPLIANT)) != 0;
  const int num_samples =
      decoder_.decode(std::span<const std::uint8_t>(packet.data, static_cast<std::size_t>(packet.size)), checks_sum);
  if (num_samples == 0) {
    return nullptr;
  }
  av::FramePtr frame = av::new_frame();
  frame->format = context_->sample_fmt;
  frame->sample_rate = context_->sample_rate;
  frame->nb_samples = num_samples;
  if (av_channel_layout_copy(&frame->ch_layout, &context_->ch_layout) < 0 ||
      avcodec_default_get_buffer2(context_, frame.get(), 0) < 0) {
    throw std::bad_alloc();
  }
  decoder_.write(frame->data[0]);
  frame->pts = frame->best_effort_timestamp = packet.pts;
  frame->pkt_dts = packet.dts;
  av::set_frame_duration(*frame, packet.duration);
  return frame;
}

}  // namespace spdl
