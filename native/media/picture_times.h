// When the pictures of packets are on screen.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "media/decoder.h"
#include "media/packets.h"

namespace spdl {

// Of the pictures inside the window of the packets, in the order in which the decoder outputs them; in ticks.
struct PictureTimes {
  std::vector<std::int64_t> starts;
  std::int64_t end = 0;  // of the last picture's display: by its own duration, else as long as the one before it

  // The last picture with a start at or before that tick; none before the first, and after the end of the last.
  std::optional<std::size_t> index_at(std::int64_t tick) const noexcept;
};

// A picture and the packet that holds it.
struct PacketOfPicture {
  std::int64_t pts = 0;
  std::size_t packet = 0;
};

// The packets of the pictures inside the window, in display order; none if packets do not tell.
std::optional<std::vector<PacketOfPicture>> pictures_by_packets(const Packets& packets);

// The times by packets; none if packets do not tell. They may be wrong about damaged packets.
std::optional<PictureTimes> times_by_packets(const Packets& packets);
// The same by decoding, which works for all packets. Throws Error: kDecode, kNoCodec; Cancelled.
PictureTimes times_by_decoding(const Packets& packets, const DecodeConfig& config);

// Decodes all packets, and calls `take` for each picture inside the window, in display order, until it returns false.
// Whether it never did. Throws as RawDecoder; Cancelled.
bool decode_shown(RawDecoder& decoder, const Packets& packets, const std::function<bool(av::FramePtr)>& take);

}  // namespace spdl
