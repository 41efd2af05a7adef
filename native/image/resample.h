// Resamples one component of a picture, a tile of kTileRows output rows at a time.
//
// Two ways. The fast one blends rows, then columns, with weights of 14 bits. The exact one is Pillow's, bit for bit
// (src/libImaging/Resample.c): columns first, rounded to 8 bits, then rows, with weights of 22 bits.
// A Strip keeps its memory for the next component. One thread per object.

#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "image/axis.h"
#include "image/kernels.h"
#include "image/picture.h"
#include "image/taps.h"

namespace spdl {

class Strip {
 public:
  // What the strip is to resample; the component's samples stay the caller's and must live until the last `make_rows`.
  // Every sample that the axes can use must be in memory: [axis.offset, axis.offset + axis.size), or, where a window of
  // the outputs is wanted, at least those that `used_samples` tells.
  void begin(const Component& component, const Axis& vertical, const Axis& horizontal, bool exact, TapsCache& taps,
             const Kernels& kernels);

  // Makes output rows [top, top + num_rows) of those that are wanted; num_rows is at most kTileRows.
  void make_rows(int top, int num_rows);

  // Row `index` of the tile: horizontal.count samples, readable up to kRowPadding further.
  const std::uint8_t* row(int index) const noexcept;

  // Gives memory back if a large picture left much of it.
  void trim(std::size_t keep_bytes) noexcept;
};

}  // namespace spdl
