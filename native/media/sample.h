// Decodes pictures of a video by position, without decoding all of it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "media/decoder.h"
#include "media/frames.h"
#include "media/packets.h"

namespace spdl {

// For each index, the picture at that position inside the window in display order: the same one as decoding everything
// and picking. `indices`: strictly ascending. The filter sees only the picked pictures, and must output one for each.
// Decodes the groups of pictures that hold them; decodes everything if the packets do not tell which picture is which.
// Throws Error: kDecode (also for an index beyond the last picture), kFilter, kNoCodec.
std::vector<Frames> sample_video(Packets packets, const std::vector<std::size_t>& indices,
                                 const std::optional<std::string>& filter, const DecodeConfig& config);

// The same, one picture after the other and without a filter: calls `take` with a position in `indices` and its
// picture, in any order, at least once for each; with `may_miss`, not for pictures lost to tolerated errors. Returns
// the number of such errors. Throws what `take` does, and Error: kDecode; Cancelled.
int decode_pictures_at(const Packets& packets, std::span<const std::size_t> indices, const DecodeConfig& config,
                       const std::function<void(std::size_t, av::FramePtr)>& take, bool may_miss = false);

// The time stamps of the pictures inside the window, in display order, in ticks; none if the packets do not tell.
std::optional<std::vector<std::int64_t>> times_by_packets(const Packets& packets);
// The same by decoding, which works for all packets.
std::vector<std::int64_t> times_by_decoding(const Packets& packets, const DecodeConfig& config);

}  // namespace spdl
