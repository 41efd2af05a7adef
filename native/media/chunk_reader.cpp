#include "media/chunk_reader.h"

#include <cstddef>
#include <utility>

#include "base/time_window.h"
#include "media/packets.h"

namespace spdl {

ChunkReader::ChunkReader(const Input& input, std::map<int, CodecPtr> codecs, int leader,
                         std::unique_ptr<OggChainReader> ogg)
    : codecs_(std::move(codecs)), leader_(leader), ogg_(std::move(ogg)) {
  for (const auto& [index, codec] : codecs_) {
    fillers_.emplace(index, PtsFiller(*codec, {input.knows_display(), true, input.asked_frame_rate()}));
  }
}

std::set<int> ChunkReader::streams() const {
  std::set<int> indices;
  for (const auto& [index, codec] : codecs_) {
    indices.insert(index);
  }
  return indices;
}

bool ChunkReader::read(Input& input, av::PacketPtr& packet) {
  if (!ogg_) {
    return input.read(*packet);
  }
  packet = ogg_->next();
  if (!packet && !ogg_->is_whole()) {
    input.report("a page of the Ogg file is damaged");  // since it was looked at
  }
  return packet != nullptr;
}

av::PacketPtr ChunkReader::next(Input& input) {
  for (;;) {
    for (auto& [index, filler] : fillers_) {
      if (av::PacketPtr packet = filler.pop()) {
        return packet;
      }
    }
    if (is_drained_) {
      return nullptr;
    }
    av::PacketPtr packet = av::new_packet();
    if (!read(input, packet)) {
      is_drained_ = true;
      for (auto& [index, filler] : fillers_) {
        filler.finish();
      }
    } else if (const auto filler = fillers_.find(packet->stream_index); filler != fillers_.end()) {
      filler->second.push(std::move(packet));
    }
  }
}

std::map<int, std::vector<av::PacketPtr>> ChunkReader::read(Input& input, std::optional<double> duration,
                                                            std::optional<int> num_packets) {
  std::map<int, std::vector<av::PacketPtr>> chunk;
  const AVRational time_base = codecs_.at(leader_)->time_base;
  std::optional<double> start;
  double time = 0;  // where the leader's last packet ended
  while (!is_at_end_) {
    av::PacketPtr packet = std::move(held_);
    if (!packet) {
      is_at_end_ = true;  // even if it throws
      packet = next(input);
      is_at_end_ = packet == nullptr;
    }
    if (!packet) {
      break;
    }
    const int index = packet->stream_index;
    if (index == leader_) {
      const double begin = seconds_of(*packet, time_base).value_or(time);
      if (duration && start && (packet->flags & AV_PKT_FLAG_KEY) != 0 && begin - *start >= *duration) {
        held_ = std::move(packet);
        break;
      }
      start = start.value_or(begin);
      time = begin + to_seconds(packet->duration, time_base.num, time_base.den);
    }
    auto& packets = chunk[index];
    packets.push_back(std::move(packet));
    if (num_packets && packets.size() >= static_cast<std::size_t>(*num_packets)) {
      break;
    }
  }
  return chunk;
}

}  // namespace spdl
