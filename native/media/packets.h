// Encoded data of one stream of a container, for a decoder.
//
// Owns its packets; their payload is shared between clones (libav counts the references) and never written to.
// One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "base/time_window.h"
#include "image/bytes.h"
#include "media/codec.h"
#include "media/sound_bounds.h"

namespace spdl {

struct Packets {
  MediaType type = MediaType::kVideo;
  std::string source;  // for messages: a path or URL, or `Bytes: 0x…`
  int stream_index = 0;
  AVRational time_base{0, 1};
  std::int64_t start = 0;  // first presentation time of the stream, according to the container; in the time base
  std::optional<TimeWindow> window;
  SoundBounds sound;  // of audio
  SoundClock clock = SoundClock::kStream;  // of the window of audio
  CodecPtr codec;  // null for packets from incremental reading
  std::vector<av::PacketPtr> packets;
  int num_errors = 0;    // tolerated while reading
  bool is_checked = false;  // the checksum of each packet was verified
  bool is_view = false;  // a view of memory with another owner; clones copy it

  Packets clone() const;
};

inline Bytes bytes_of(const AVPacket& packet) noexcept {
  return {packet.data, static_cast<std::size_t>(packet.size < 0 ? 0 : packet.size)};
}

// When the sound begins, in seconds of the container's clock.
double sound_start(const Packets& packets) noexcept;

// The window of pictures, in ticks; none without a window.
std::optional<TickWindow> tick_window(const Packets& packets) noexcept;
// Presentation time in ticks; falls back on the decoding time stamp. AV_NOPTS_VALUE if the packet has neither.
inline std::int64_t ticks_of(const AVPacket& packet) noexcept {
  return packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
}
// Presentation time in seconds; falls back on the decoding time stamp. Empty if the packet has neither.
std::optional<double> seconds_of(const AVPacket& packet, AVRational time_base) noexcept;

// One for each packet, in decoding order.
std::vector<double> packet_timestamps(const Packets& packets);
// Whether a packet is in the window: the time of a picture, or any sample of audio. Pictures that an edit list removes are not.
bool is_in_window(const Packets& packets, const AVPacket& packet) noexcept;
// One for each packet in the window, in display order.
std::vector<double> display_timestamps(const Packets& packets);
// The number of packets in the window.
std::size_t num_in_window(const Packets& packets);

}  // namespace spdl
