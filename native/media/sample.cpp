#include "media/sample.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/watch.h"
#include "media/entry_point.h"
#include "media/frame_filter.h"
#include "media/picture_times.h"

namespace spdl {
namespace {

// A run of packets, from a key frame on, and pictures that it gives.
struct Run {
  std::size_t first = 0;
  std::size_t last = 0;
};

using Slots = std::unordered_map<std::int64_t, std::size_t>;  // pts -> position among the indices

// Where decoding has to start for a picture: the last key frame that is neither decoded nor shown after it. (What is
// shown before a key frame and decoded after it may refer to what was before the key frame.) If that is only a point from
// which pictures recover bit by bit: an earlier one, so that they have recovered by then; see VideoCollector.
std::size_t start_of(const Packets& packets, const PacketOfPicture& wanted) {
  constexpr std::size_t kMostHeld = 16;  // pictures in a decoder (ITU-T H.264, A.3.1)
  std::size_t latest = packets.packets.size();
  for (std::size_t i = wanted.packet; i > 0; --i) {
    const AVPacket& packet = *packets.packets[i];
    if ((packet.flags & AV_PKT_FLAG_KEY) == 0 || packet.pts > wanted.pts) {
      continue;
    }
    if (i + kMostHeld <= latest && latest < packets.packets.size()) {
      return i;
    }
    if (is_clean_entry(packet, *packets.codec->parameters)) {
      return i;
    }
    latest = std::min(latest, i);
  }
  return 0;
}

std::vector<Run> runs_of(const Packets& packets, const std::vector<PacketOfPicture>& wanted) {
  std::vector<Run> all;
  for (const PacketOfPicture& each : wanted) {
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

// Decodes from the beginning, and counts. The number of pictures that came out: with all that are wanted, up to the last.
std::size_t decode_all(RawDecoder& decoder, const Packets& packets, std::span<const std::size_t> indices,
                       const TakePicture& take_picture) {
  std::size_t position = 0;
  std::size_t next = 0;
  decode_shown(decoder, packets, [&](av::FramePtr frame) {
    if (indices[next] == position++) {
      take_picture(next++, std::move(frame));
    }
    return next < indices.size();
  });
  return position;
}

bool decode_by_packets(RawDecoder& decoder, const Packets& packets, std::span<const std::size_t> indices,
                       const TakePicture& take_picture) {
  const std::optional<std::vector<PacketOfPicture>> all = pictures_by_packets(packets);
  if (!all || indices.back() >= all->size()) {
    return false;
  }
  std::vector<PacketOfPicture> wanted;
  Slots slots;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    wanted.push_back((*all)[indices[i]]);
    slots.emplace(wanted.back().pts, i);
  }
  return decode_runs(decoder, packets, runs_of(packets, wanted), slots, take_picture);
}

}  // namespace

Sampling decode_pictures_at(const Packets& packets, std::span<const std::size_t> indices, SampleBy by,
                            const DecodeConfig& config, const TakePicture& take) {
  RawDecoder decoder(codec_of(packets), config, packets.source, packets.stream_index);
  decoder.inspect(packets);
  Sampling result;
  if (by == SampleBy::kPackets) {
    result.is_complete = decode_by_packets(decoder, packets, indices, take);
  } else {
    result.num_pictures = decode_all(decoder, packets, indices, take);
    result.is_complete = result.num_pictures > indices.back();
  }
  result.num_errors = decoder.num_errors();
  return result;
}

SampledVideo sample_video(const Packets& packets, const std::vector<std::size_t>& indices, SampleBy by,
                          const std::optional<std::string>& filter, const DecodeConfig& config) {
  const Codec& codec = codec_of(packets);
  SampledVideo result;
  if (indices.empty()) {
    result.is_complete = true;
    return result;
  }
  std::vector<av::FramePtr> found(indices.size());
  static_cast<Sampling&>(result) =
      decode_pictures_at(packets, indices, by, config,
                         [&](std::size_t position, av::FramePtr frame) { found[position] = std::move(frame); });
  if (!result.is_complete) {
    return result;
  }

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
  for (av::FramePtr& frame : filtered) {
    Frames& picture = result.pictures.emplace_back();
    picture.type = MediaType::kImage;
    picture.source = packets.source;
    picture.time_base = chain.time_base();
    picture.num_errors = result.num_errors;
    picture.frames.push_back(std::move(frame));
  }
  return result;
}

}  // namespace spdl
