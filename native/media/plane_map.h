// Where the planes of frames lie in memory: ranges, each of which is sent once for all frames that share it.
//
// Values that do not keep the frames alive: they are valid as long as the frames are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "media/frames.h"

namespace spdl {

// The range of a plane, relative to its first row's address: it starts before that address if rows go upwards. `size`
// counts the required bytes, `with_padding` also the rest of the last row.
struct Extent {
  std::size_t before = 0;
  std::size_t size = 0;
  std::size_t with_padding = 0;
};

// The extent of each plane; none if the frame's fields are inconsistent, or it has no planes in memory.
std::vector<Extent> extents_of(const AVFrame& frame, MediaType type);

// A range of memory with planes.
struct MemoryRange {
  const AVBufferRef* reference = nullptr;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;         // including bytes that may be read beyond it
  std::uintptr_t planes_end = 0;  // without
  bool is_in_band = false;
  std::size_t buffer = 0;  // that it is sent in; 0 is the one in band
  std::size_t offset = 0;  // in that buffer
};

// The ranges in the order of their addresses, and the range that each plane is in.
struct PlaneMap {
  std::vector<MemoryRange> ranges;
  std::vector<std::size_t> of_plane;
  std::vector<std::uintptr_t> begins;       // of each plane
  std::vector<std::size_t> num_planes;      // of each frame
  std::size_t in_band_size = 0;              // of the ranges that are in band
};

// Throws Error: kUnsupportedFormat for frames in memory of a GPU, kMedia for frames without reference-counted planes.
PlaneMap map_planes(const Frames& frames);

}  // namespace spdl
