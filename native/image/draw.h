// Draws a decoded picture onto a canvas: resamples each component from its own resolution straight to the target grid,
// converts colours there, places the result and blackens what it leaves free.

#pragma once

#include "base/buffer.h"
#include "image/fit.h"
#include "image/kernels.h"
#include "image/orientation.h"
#include "image/picture.h"
#include "image/resample.h"
#include "image/taps.h"

namespace spdl {

// Resamples and converts, and keeps its scratch memory and weights for the next picture. One thread per object.
class Artist {
 public:
  explicit Artist(const Kernels& kernels = best_kernels()) : kernels_(kernels) {}

  // `placement` is where the upright picture goes; all of it lies inside the canvas.
  void draw(const Picture& picture, Orientation orientation, Placement placement, const Canvas& canvas);

  // Gives memory back if a large picture left much of it.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  void prepare(const Component& component, int width, int height, Strip& strip);
  // Converts row `index` of the strips to pixels, with room for kBlock pixels past the end.
  const std::uint8_t* convert_row(ColorModel model, PixelFormat format, int index, int width);
  void draw_upright(const Picture& picture, int width, int height, PixelFormat format, std::uint8_t* out,
                    std::size_t stride);

  const Kernels& kernels_;
  TapsCache taps_;
  std::array<Strip, 4> strips_;
  Buffer line_;
  Buffer unturned_;
};

}  // namespace spdl
