// Where the planes of frames lie in memory, as stretches that are to be sent once for all frames that share them.
//
// Values, which do not keep the frames: they are good as long as the frames are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "media/frames.h"

namespace spdl {

// From where to where a plane is, relative to its first row's address: more than 0 bytes before it where rows go
// upwards. `size` counts what must be there, `with_padding` also the rest of the last row.
struct Extent {
  std::size_t before = 0;
  std::size_t size = 0;
  std::size_t with_padding = 0;
};

// Of each plane; none if the frame's fields do not fit together, or it has no planes in memory.
std::vector<Extent> extents_of(const AVFrame& frame, MediaType type);

// A stretch of memory in which planes are.
struct Stretch {
  const AVBufferRef* reference = nullptr;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;         // with what may be read beyond
  std::uintptr_t planes_end = 0;  // without
  bool is_joined = false;
  std::size_t part = 0;    // 0 is the joined one
  std::size_t offset = 0;  // in there
};

// The stretches of all planes, in their order, and for each plane the one that it is in.
struct PlaneMap {
  std::vector<Stretch> stretches;
  std::vector<std::size_t> of_plane;
  std::vector<std::uintptr_t> begins;       // of each plane
  std::vector<std::size_t> num_planes;      // of each frame
  std::size_t joined_size = 0;              // of the stretches that are joined
};

// Throws Error: kUnsupportedFormat for frames in memory of a GPU, kMedia for what has no planes that libav counts the
// references to.
PlaneMap map_planes(const Frames& frames);

}  // namespace spdl
