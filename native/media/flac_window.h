// Packets of a window of a FLAC file. libav finds frames by parsing the file from somewhere before, which takes longer
// than decoding them.

#pragma once

#include <optional>
#include <vector>

#include "av/owners.h"
#include "base/time_window.h"
#include "media/input.h"

namespace spdl {

// The packets that hold the samples of the window, in seconds, and a hundredth of a second after it. None if the input
// is not a FLAC file or is not valid around the window; it must then be read in another way. Afterwards, seek or reopen
// the input. Throws Error(kTimeout); Cancelled.
std::optional<std::vector<av::PacketPtr>> read_flac_window(Input& input, int stream, TimeWindow window);

}  // namespace spdl
