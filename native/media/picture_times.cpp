#include "media/picture_times.h"

extern "C" {
#include <libavutil/mathematics.h>
}

#include <algorithm>
#include <utility>

#include "av/compat.h"
#include "base/watch.h"
#include "media/entry_point.h"
#include "media/shown_frames.h"

namespace spdl {
namespace {

// Codecs that give one picture for each packet that shows one, with the packet's time stamp.
bool gives_one_each(const AVCodecParameters& parameters) noexcept {
  if (parameters.field_order > AV_FIELD_PROGRESSIVE) {
    return false;  // fields may come as packets of their own
  }
  switch (parameters.codec_id) {
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
      return true;
    default: {
      const AVCodecDescriptor* descriptor = avcodec_descriptor_get(parameters.codec_id);
      return descriptor != nullptr && (descriptor->props & AV_CODEC_PROP_INTRA_ONLY) != 0;
    }
  }
}

// Whether the codec has packets without a picture of their own, by their headers.
bool has_hidden_frames(AVCodecID id) noexcept {
  return id == AV_CODEC_ID_VP8 || id == AV_CODEC_ID_VP9 || id == AV_CODEC_ID_MPEG4;
}

// The end of the picture with the latest start.
std::int64_t end_of(const std::vector<std::int64_t>& starts, std::int64_t duration, const Packets& packets) {
  if (starts.empty()) {
    return 0;
  }
  const std::int64_t last = *std::ranges::max_element(starts);
  std::int64_t before = AV_NOPTS_VALUE;
  for (const std::int64_t start : starts) {
    if (start < last) {
      before = std::max(before, start);
    }
  }
  if (duration <= 0 && before != AV_NOPTS_VALUE) {
    duration = last - before;
  }
  const AVRational rate = packets.codec->frame_rate;
  if (duration <= 0 && rate.num > 0 && rate.den > 0) {
    duration = av_rescale_q(1, av_inv_q(rate), packets.time_base);
  }
  std::int64_t end = 0;
  return __builtin_add_overflow(last, std::max<std::int64_t>(duration, 1), &end) ? last : end;
}

}  // namespace

std::optional<std::size_t> PictureTimes::index_at(std::int64_t tick) const noexcept {
  if (tick >= end) {
    return std::nullopt;
  }
  if (std::ranges::is_sorted(starts)) {
    const auto after = std::ranges::upper_bound(starts, tick);
    return after == starts.begin() ? std::nullopt : std::optional(static_cast<std::size_t>(after - starts.begin()) - 1);
  }
  // Where files were joined, time may begin again.
  for (std::size_t i = starts.size(); i-- > 0;) {
    if (starts[i] <= tick) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<PacketOfPicture>> pictures_by_packets(const Packets& packets) {
  const AVCodecParameters& parameters = *packets.codec->parameters;
  if (packets.packets.empty() || !gives_one_each(parameters) || (packets.packets[0]->flags & AV_PKT_FLAG_KEY) == 0 ||
      !is_clean_entry(*packets.packets[0], parameters)) {
    return std::nullopt;
  }
  const bool may_hide = has_hidden_frames(parameters.codec_id);
  const std::optional<TickWindow> window = tick_window(packets);
  std::vector<PacketOfPicture> all;
  all.reserve(packets.packets.size());
  std::int64_t latest = AV_NOPTS_VALUE;
  std::int64_t latest_before_key = AV_NOPTS_VALUE;
  for (std::size_t i = 0; i < packets.packets.size(); ++i) {
    const AVPacket& packet = *packets.packets[i];
    if (packet.pts == AV_NOPTS_VALUE) {
      return std::nullopt;
    }
    // All that is decoded before a key frame is displayed before all that is decoded from there on. Where files were joined, that
    // need not hold, nor that pictures come out in the order of their times.
    if ((packet.flags & AV_PKT_FLAG_KEY) != 0) {
      latest_before_key = latest;
    }
    if ((packet.flags & AV_PKT_FLAG_DISCARD) == 0) {
      if (packet.pts <= latest_before_key) {
        return std::nullopt;
      }
      latest = std::max(latest, packet.pts);
    }
    if ((packet.flags & AV_PKT_FLAG_DISCARD) != 0 || (window && !window->contains(packet.pts))) {
      continue;
    }
    const std::optional<int> num_shown = may_hide ? num_shown_frames(parameters.codec_id, bytes_of(packet)) : 1;
    if (num_shown == 0) {
      continue;
    }
    if (num_shown != 1 || packet.pts < packets.packets[0]->pts) {
      return std::nullopt;  // whether it comes out is for the decoder to say
    }
    all.push_back({packet.pts, i});
  }
  std::ranges::sort(all, {}, &PacketOfPicture::pts);
  const bool has_twins = std::ranges::adjacent_find(all, {}, &PacketOfPicture::pts) != all.end();
  return has_twins ? std::nullopt : std::optional(std::move(all));
}

std::optional<PictureTimes> times_by_packets(const Packets& packets) {
  const auto all = pictures_by_packets(packets);
  if (!all) {
    return std::nullopt;
  }
  PictureTimes times;
  times.starts.reserve(all->size());
  for (const PacketOfPicture& picture : *all) {
    times.starts.push_back(picture.pts);
  }
  times.end = all->empty() ? 0 : end_of(times.starts, packets.packets[all->back().packet]->duration, packets);
  return times;
}

bool decode_shown(RawDecoder& decoder, const Packets& packets, const std::function<bool(av::FramePtr)>& take) {
  const std::optional<TickWindow> window = tick_window(packets);
  const auto take_shown = [&](av::FramePtr frame) {
    const bool is_shown = !window || window->contains(frame->pts != AV_NOPTS_VALUE ? frame->pts : 0);
    return !is_shown || take(std::move(frame));
  };
  Watch watch;
  for (const auto& packet : packets.packets) {
    if (watch.is_over()) {
      watch.throw_if_over("decode", packets.source);
    }
    if (!decoder.decode(packet.get(), take_shown)) {
      return false;
    }
  }
  return decoder.decode(nullptr, take_shown);
}

PictureTimes times_by_decoding(const Packets& packets, const DecodeConfig& config) {
  RawDecoder decoder(codec_of(packets), config, packets.source, packets.stream_index);
  decoder.inspect(packets);
  PictureTimes times;
  std::int64_t duration = 0;  // of the picture with the latest start
  std::int64_t latest = AV_NOPTS_VALUE;
  decode_shown(decoder, packets, [&](av::FramePtr frame) {
    const std::int64_t start = frame->pts != AV_NOPTS_VALUE ? frame->pts : times.starts.empty() ? 0 : times.starts.back();
    times.starts.push_back(start);
    if (start >= latest) {
      latest = start;
      duration = av::frame_duration(*frame);
    }
    return true;
  });
  times.end = end_of(times.starts, duration, packets);
  return times;
}

}  // namespace spdl
