#include "media/sample.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/watch.h"
#include "media/frame_filter.h"

namespace spdl {
namespace {

// A run of packets, from a key frame on, and pictures that it gives.
struct Run {
  std::size_t first = 0;
  std::size_t last = 0;
};

struct Wanted {
  std::int64_t pts = 0;
  std::size_t packet = 0;
};

using Slots = std::unordered_map<std::int64_t, std::size_t>;  // pts -> position among the indices

// Codecs that give one picture for each packet, with its time stamp.
bool gives_one_each(const Packets& packets) {
  const AVCodecParameters& parameters = *packets.codec->parameters;
  if (parameters.field_order > AV_FIELD_PROGRESSIVE) {
    return false;  // fields may come as packets of their own
  }
  switch (parameters.codec_id) {
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_VP9:
      return true;
    case AV_CODEC_ID_MPEG4: {
      // "The picture before once more" fits into a few bytes, and gives none.
      constexpr int kSmallest = 8;
      return std::ranges::none_of(packets.packets, [](const auto& packet) { return packet->size < kSmallest; });
    }
    default: {
      const AVCodecDescriptor* descriptor = avcodec_descriptor_get(parameters.codec_id);
      return descriptor != nullptr && (descriptor->props & AV_CODEC_PROP_INTRA_ONLY) != 0;
    }
  }
}

// The packets of pictures that will be shown, in display order; none if packets do not tell.
std::optional<std::vector<Wanted>> shown(const Packets& packets) {
  if (packets.packets.empty() || !gives_one_each(packets) || (packets.packets[0]->flags & AV_PKT_FLAG_KEY) == 0) {
    return std::nullopt;
  }
  std::vector<Wanted> all;
  for (std::size_t i = 0; i < packets.packets.size(); ++i) {
    const AVPacket& packet = *packets.packets[i];
    if (packet.pts == AV_NOPTS_VALUE) {
      return std::nullopt;
    }
    const bool is_shown = (packet.flags & AV_PKT_FLAG_DISCARD) == 0 &&
                          (!packets.window || packets.window->contains(seconds_of(packet, packets.time_base).value_or(0)));
    if (!is_shown) {
      continue;
    }
    if (packet.pts < packets.packets[0]->pts) {
      return std::nullopt;  // whether it comes out is for the decoder to say
    }
    all.push_back({packet.pts, i});
  }
  std::ranges::sort(all, {}, &Wanted::pts);
  const bool has_twins = std::ranges::adjacent_find(all, {}, &Wanted::pts) != all.end();
  return has_twins ? std::nullopt : std::optional(std::move(all));
}

// Where decoding has to start for a picture: the last key frame that is neither decoded nor shown after it. (What is
// shown before a key frame and decoded after it may refer to what was before the key frame.)
std::size_t start_of(const Packets& packets, const Wanted& wanted) {
  for (std::size_t i = wanted.packet; i > 0; --i) {
    const AVPacket& packet = *packets.packets[i];
    if ((packet.flags & AV_PKT_FLAG_KEY) != 0 && packet.pts <= wanted.pts) {
      return i;
    }
  }
  return 0;
}

std::vector<Run> runs_of(const Packets& packets, const std::vector<Wanted>& wanted) {
  std::vector<Run> all;
  for (const Wanted& each : wanted) {
    all.push_back({start_of(packets, each), each.packet});
  }
  std::ranges::sort(all, {}, &Run::first);
  std::vector<Run> merged;
  for (const Run& run : all) {
    if (!merged.empty() && run.first <= merged.back().last) {
      merged.back().last = std::max(merged.back().last, run.last);
    } else {
      merged.push_back(run);
    }
  }
  return merged;
}

void give_up_if_cancelled(Watch& watch, const Packets& packets) {
  if (watch.is_over()) {
    watch.throw_if_over("decode", packets.source);
  }
}

using TakePicture = std::function<void(std::size_t, av::FramePtr)>;

// Gives each picture that comes out with the time stamp of a slot. Whether there was one for each.
bool decode_runs(RawDecoder& decoder, const Packets& packets, const std::vector<Run>& runs, const Slots& slots,
                 const TakePicture& take_picture) {
  std::vector<bool> is_found(slots.size());
  const auto take = [&](av::FramePtr frame) {
    if (const auto slot = slots.find(frame->pts); slot != slots.end() && !is_found[slot->second]) {
      is_found[slot->second] = true;
      take_picture(slot->second, std::move(frame));
    }
    return true;
  };
  Watch watch;
  for (const Run& run : runs) {
    if (&run != &runs.front()) {
      decoder.restart();
    }
    for (std::size_t i = run.first; i <= run.last; ++i) {
      give_up_if_cancelled(watch, packets);
      const AVPacket& packet = *packets.packets[i];
      decoder.skip_unreferenced(!slots.contains(packet.pts));
      decoder.decode(&packet, take);
    }
    // What is held back comes out without anything more being decoded.
    decoder.decode(nullptr, take);
  }
  return std::ranges::all_of(is_found, [](bool found) { return found; });
}

// Gives all pictures inside the window, in display order, until `take` returns false. Whether it never did.
template <class Take>
bool decode_shown(RawDecoder& decoder, const Packets& packets, Take&& take) {
  const auto take_shown = [&](av::FramePtr frame) {
    const bool is_shown =
        !packets.window || packets.window->contains(seconds_of(*frame, packets.time_base).value_or(0));
    return !is_shown || take(std::move(frame));
  };
  Watch watch;
  for (const auto& packet : packets.packets) {
    give_up_if_cancelled(watch, packets);
    if (!decoder.decode(packet.get(), take_shown)) {
      return false;
    }
  }
  return decoder.decode(nullptr, take_shown);
}

// Decodes from the beginning, and counts.
void decode_all(RawDecoder& decoder, const Packets& packets, std::span<const std::size_t> indices,
                const TakePicture& take_picture) {
  std::size_t position = 0;
  std::size_t next = 0;
  const bool wants_more = decode_shown(decoder, packets, [&](av::FramePtr frame) {
    if (indices[next] == position++) {
      take_picture(next++, std::move(frame));
    }
    return next < indices.size();
  });
  if (wants_more) {
    throw Error(ErrorKind::kDecode, "decode",
                "there is no picture " + std::to_string(indices[next]) + ", only " + std::to_string(position) + " came out")
        .in(packets.source)
        .at(packets.stream_index, {});
  }
}

bool decode_by_packets(RawDecoder& decoder, const Packets& packets, std::span<const std::size_t> indices,
                       const TakePicture& take_picture) {
  const std::optional<std::vector<Wanted>> all = shown(packets);
  if (!all || indices.back() >= all->size()) {
    return false;
  }
  std::vector<Wanted> wanted;
  Slots slots;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    wanted.push_back((*all)[indices[i]]);
    slots.emplace(wanted.back().pts, i);
  }
  return decode_runs(decoder, packets, runs_of(packets, wanted), slots, take_picture);
}

}  // namespace

int decode_pictures_at(const Packets& packets, std::span<const std::size_t> indices, const DecodeConfig& config,
                       const TakePicture& take, bool may_miss) {
  const Codec& codec = codec_of(packets);
  RawDecoder decoder(codec, config, packets.source, packets.stream_index);
  decoder.inspect(packets);
  if (!decode_by_packets(decoder, packets, indices, take) && !(may_miss && decoder.num_errors() > 0)) {
    decoder = RawDecoder(codec, config, packets.source, packets.stream_index);
    decode_all(decoder, packets, indices, take);
  }
  return decoder.num_errors();
}

std::optional<std::vector<std::int64_t>> times_by_packets(const Packets& packets) {
  const auto all = shown(packets);
  if (!all) {
    return std::nullopt;
  }
  std::vector<std::int64_t> times;
  times.reserve(all->size());
  for (const Wanted& picture : *all) {
    times.push_back(picture.pts);
  }
  return times;
}

std::vector<std::int64_t> times_by_decoding(const Packets& packets, const DecodeConfig& config) {
  RawDecoder decoder(codec_of(packets), config, packets.source, packets.stream_index);
  decoder.inspect(packets);
  std::vector<std::int64_t> times;
  decode_shown(decoder, packets, [&](av::FramePtr frame) {
    times.push_back(frame->pts != AV_NOPTS_VALUE ? frame->pts : times.empty() ? 0 : times.back());
    return true;
  });
  return times;
}

std::vector<Frames> sample_video(Packets packets, const std::vector<std::size_t>& indices,
                                 const std::optional<std::string>& filter, const DecodeConfig& config) {
  const Codec& codec = codec_of(packets);
  if (indices.empty()) {
    return {};
  }
  std::vector<av::FramePtr> found(indices.size());
  const int num_errors = decode_pictures_at(packets, indices, config, [&](std::size_t position, av::FramePtr frame) {
    found[position] = std::move(frame);
  });

  FrameFilter chain({codec.type, codec.time_base, codec.frame_rate}, filter, packets.source);
  std::vector<av::FramePtr> filtered;
  for (av::FramePtr& frame : found) {
    chain.filter(std::move(frame), filtered);
  }
  chain.filter(nullptr, filtered);
  if (filtered.size() != indices.size()) {
    throw Error(ErrorKind::kFilter, "sample with the filter '" + filter.value_or("") + "'",
                "it gave " + std::to_string(filtered.size()) + " pictures for " + std::to_string(indices.size()) +
                    "; it has to give one for each")
        .in(packets.source);
  }
  std::vector<Frames> result;
  for (av::FramePtr& frame : filtered) {
    Frames& picture = result.emplace_back();
    picture.type = MediaType::kImage;
    picture.source = packets.source;
    picture.time_base = chain.time_base();
    picture.num_errors = num_errors;
    picture.frames.push_back(std::move(frame));
  }
  return result;
}

}  // namespace spdl
