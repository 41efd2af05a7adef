#include "media/packets.h"

#include <algorithm>

namespace spdl {

Packets Packets::clone() const {
  Packets copy;
  copy.type = type;
  copy.source = source;
  copy.stream_index = stream_index;
  copy.time_base = time_base;
  copy.window = window;
  copy.codec = codec;
  copy.num_errors = num_errors;
  copy.packets.reserve(packets.size());
  for (const auto& packet : packets) {
    copy.packets.push_back(av::clone(*packet));
  }
  return copy;
}

std::optional<double> seconds_of(const AVPacket& packet, AVRational time_base) noexcept {
  const std::int64_t ticks = packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
  if (ticks == AV_NOPTS_VALUE) {
    return std::nullopt;
  }
  return to_seconds(ticks, time_base.num, time_base.den);
}

std::vector<double> packet_timestamps(const Packets& packets) {
  std::vector<double> times;
  times.reserve(packets.packets.size());
  for (const auto& packet : packets.packets) {
    times.push_back(seconds_of(*packet, packets.time_base).value_or(0));
  }
  return times;
}

std::vector<double> display_timestamps(const Packets& packets) {
  std::vector<double> times = packet_timestamps(packets);
  if (packets.window) {
    std::erase_if(times, [&](double time) { return !packets.window->contains(time); });
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::size_t num_in_window(const Packets& packets) {
  return packets.window ? display_timestamps(packets).size() : packets.packets.size();
}

}  // namespace spdl
