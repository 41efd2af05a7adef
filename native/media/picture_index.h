// What the index of a container tells about the pictures of a stream, without reading packets.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstdint>
#include <optional>

namespace spdl {

// The times of pictures at regular intervals, all of them in the index: picture i is displayed at start + i * step, in the
// stream's time base.
struct PictureGrid {
  std::int64_t count = 0;
  std::int64_t start = 0;
  std::int64_t step = 0;
  AVRational time_base{0, 1};
};

// None if the intervals are not regular, or if that is unknown without reading all packets.
std::optional<PictureGrid> picture_grid(AVStream& stream);

}  // namespace spdl
