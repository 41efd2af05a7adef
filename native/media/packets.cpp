#include "media/packets.h"

#include <algorithm>
#include <limits>
#include <new>

#include "av/check.h"

namespace spdl {

namespace {

// With data of its own.
av::PacketPtr copy_of(const AVPacket& packet) {
  av::PacketPtr copy = av::new_packet();
  av::check(av_packet_copy_props(copy.get(), &packet), ErrorKind::kMedia, "copy packets");
  copy->buf = av_buffer_allocz(static_cast<std::size_t>(packet.size) + AV_INPUT_BUFFER_PADDING_SIZE);
  if (copy->buf == nullptr) {
    throw std::bad_alloc();
  }
  copy->data = copy->buf->data;
  copy->size = packet.size;
  std::copy_n(packet.data, packet.size, copy->data);
  return copy;
}

}  // namespace

Packets Packets::clone() const {
  Packets copy;
  copy.type = type;
  copy.source = source;
  copy.stream_index = stream_index;
  copy.time_base = time_base;
  copy.start = start;
  copy.window = window;
  copy.sound = sound;
  copy.clock = clock;
  copy.codec = codec;
  copy.num_errors = num_errors;
  copy.packets.reserve(packets.size());
  for (const auto& packet : packets) {
    copy.packets.push_back(is_view ? copy_of(*packet) : av::clone(*packet));
  }
  return copy;
}

std::optional<TickWindow> tick_window(const Packets& packets) noexcept {
  return packets.window ? std::optional(TickWindow::of(*packets.window, packets.time_base.num, packets.time_base.den))
                        : std::nullopt;
}

std::optional<double> seconds_of(const AVPacket& packet, AVRational time_base) noexcept {
  const std::int64_t ticks = ticks_of(packet);
  if (ticks == AV_NOPTS_VALUE) {
    return std::nullopt;
  }
  return to_seconds(ticks, time_base.num, time_base.den);
}

double sound_start(const Packets& packets) noexcept {
  const SoundBounds& sound = packets.sound;
  return sound.rate > 0 ? to_seconds(start_position(sound, packets.time_base, sound.rate), 1, sound.rate)
                        : to_seconds(sound.first_pts, packets.time_base.num, packets.time_base.den);
}

std::vector<double> packet_timestamps(const Packets& packets) {
  std::vector<double> times;
  times.reserve(packets.packets.size());
  for (const auto& packet : packets.packets) {
    times.push_back(seconds_of(*packet, packets.time_base).value_or(0));
  }
  return times;
}

bool is_in_window(const Packets& packets, const AVPacket& packet) noexcept {
  if (packets.type != MediaType::kAudio && (packet.flags & AV_PKT_FLAG_DISCARD) != 0) {
    return false;
  }
  if (!packets.window) {
    return true;
  }
  if (packets.type != MediaType::kAudio) {
    return ticks_of(packet) != AV_NOPTS_VALUE && tick_window(packets)->contains(ticks_of(packet));
  }
  auto begin = seconds_of(packet, packets.time_base);
  if (!begin) {
    return false;
  }
  if (packets.clock == SoundClock::kFirstSample) {
    *begin -= sound_start(packets);
  }
  // Where nothing says how long it lasts, no packet follows.
  const double end = packet.duration > 0
                         ? *begin + to_seconds(packet.duration, packets.time_base.num, packets.time_base.den)
                         : std::numeric_limits<double>::infinity();
  return !packets.window->empty() && *begin < packets.window->end &&
         (end > packets.window->start || *begin == packets.window->start);
}

std::vector<double> display_timestamps(const Packets& packets) {
  std::vector<double> times;
  times.reserve(packets.packets.size());
  for (const auto& packet : packets.packets) {
    if (is_in_window(packets, *packet)) {
      times.push_back(seconds_of(*packet, packets.time_base).value_or(0));
    }
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::size_t num_in_window(const Packets& packets) {
  return static_cast<std::size_t>(std::count_if(packets.packets.begin(), packets.packets.end(),
                                                [&](const auto& packet) { return is_in_window(packets, *packet); }));
}

}  // namespace spdl
