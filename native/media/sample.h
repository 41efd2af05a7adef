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

// How to find pictures: by what packets tell, decoding only the groups that hold them; or by decoding everything, which
// works for all packets.
enum class SampleBy { kPackets, kDecoding };

struct Sampling {
  bool is_complete = false;      // whether there was a picture for each index
  std::size_t num_pictures = 0;  // with kDecoding, if it is not complete: how many came out
  int num_errors = 0;            // tolerated
};

// For each index, the picture at that position inside the window, in the order of times_by_packets or times_by_decoding.
// Calls `take` with a position in `indices` and its picture, in any order. `indices`: strictly ascending, not empty. With
// kPackets, it is not complete if packets do not tell, or told wrong. Throws what `take` does, and Error: kDecode,
// kNoCodec; Cancelled.
Sampling decode_pictures_at(const Packets& packets, std::span<const std::size_t> indices, SampleBy by,
                            const DecodeConfig& config,
                            const std::function<void(std::size_t, av::FramePtr)>& take);

struct SampledVideo : Sampling {
  std::vector<Frames> pictures;  // one for each index; none if it is not complete
};

// The same, filtered. The filter sees only the wanted pictures, and must output one for each. Throws Error: kDecode,
// kFilter, kNoCodec; Cancelled.
SampledVideo sample_video(const Packets& packets, const std::vector<std::size_t>& indices, SampleBy by,
                          const std::optional<std::string>& filter, const DecodeConfig& config);

}  // namespace spdl
