// Pictures of a video by their position, without decoding all of it.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "media/decoder.h"
#include "media/frames.h"
#include "media/packets.h"

namespace spdl {

// For each index, the picture at that position inside the window in display order: the very one that decoding everything
// and picking gives. `indices`: ascending, none twice. The filter sees the picked pictures only, and must give one for
// each. Decodes the groups of pictures that hold them; everything where packets do not tell which picture is which.
// Throws Error: kDecode (also for an index beyond the last picture), kFilter, kNoCodec.
std::vector<Frames> sample_video(Packets packets, const std::vector<std::size_t>& indices,
                                 const std::optional<std::string>& filter, const DecodeConfig& config);

}  // namespace spdl
