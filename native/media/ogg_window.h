// Packets of a window of an Ogg file with one stream, of Vorbis or Opus. libav looks for pages byte by byte and computes
// their checksums at each step, which takes as long as decoding the window.

#pragma once

#include <optional>
#include <vector>

#include "av/owners.h"
#include "base/time_window.h"
#include "media/input.h"
#include "media/window.h"

namespace spdl {

// The packets that an AudioCollector keeps for the window, in seconds. `packet_length`: about that of a packet, in
// seconds. None if the input is not such a file, if it is not valid around the window, or if the window is at its
// beginning; it must then be read in another way. Afterwards, seek or reopen the input. Throws Error(kTimeout);
// Cancelled.
std::optional<std::vector<av::PacketPtr>> read_ogg_window(Input& input, int stream, TimeWindow window,
                                                          const Preroll& preroll, double packet_length);

}  // namespace spdl
