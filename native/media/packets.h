// Encoded data of one stream, as it came out of a container: what a decoder takes.
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

namespace spdl {

struct Packets {
  MediaType type = MediaType::kVideo;
  std::string source;  // for messages: a path or URL, or `Bytes: 0x…`
  int stream_index = 0;
  AVRational time_base{0, 1};
  std::int64_t start = 0;  // when their stream begins to be displayed, as far as its container tells; in the time base
  std::optional<TimeWindow> window;
  CodecPtr codec;  // none: packets from streaming
  std::vector<av::PacketPtr> packets;
  int num_errors = 0;  // how often reading failed and went on, where that was asked for
  bool is_view = false;  // of memory that somebody else may want back: clones have memory of their own

  Packets clone() const;
};

inline Bytes bytes_of(const AVPacket& packet) noexcept {
  return {packet.data, static_cast<std::size_t>(packet.size < 0 ? 0 : packet.size)};
}

// Presentation time in seconds; falls back on the decoding time stamp. Empty if the packet has neither.
std::optional<double> seconds_of(const AVPacket& packet, AVRational time_base) noexcept;

// Of each packet, in their order.
std::vector<double> packet_timestamps(const Packets& packets);
// Whether a packet has something in the window: a picture its time, a piece of sound any part of it. Pictures that
// an edit list cuts away have not.
bool is_in_window(const Packets& packets, const AVPacket& packet) noexcept;
// In display order, of those in the window.
std::vector<double> display_timestamps(const Packets& packets);
// How many packets are in the window.
std::size_t num_in_window(const Packets& packets);

}  // namespace spdl
