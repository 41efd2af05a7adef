// Draws a decoded picture onto a canvas: resamples each component from its own resolution straight to the target grid,
// converts colours there, places the result and blackens what it leaves free.

#pragma once

#include <vector>

#include "base/buffer.h"
#include "image/fit.h"
#include "image/kernels.h"
#include "image/orientation.h"
#include "image/picture.h"
#include "image/taps.h"

namespace spdl {

// Resamples and converts, and keeps its scratch memory and weights for the next picture. One thread per object.
class Artist {
 public:
  explicit Artist(const Kernels& kernels = best_kernels()) : kernels_(kernels) {}

  // `placement` is where the upright picture goes; all of it lies inside the canvas.
  void draw(const Picture& picture, Orientation orientation, Placement placement, const Canvas& canvas);

  // Resamples one component into `height` rows of `width` bytes.
  void resample(const Component& component, int width, int height, std::uint8_t* out);

  // Gives memory back if a large picture left much of it.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  // A component on its way: the weights, and kTileRows resampled rows, `stride` apart.
  struct Strip {
    std::shared_ptr<const Taps> vertical;    // none: rows are copied
    std::shared_ptr<const Taps> horizontal;  // none: columns are kept
    Buffer rows;
    std::size_t stride = 0;
  };

  void prepare(const Component& component, int width, int height, Strip& strip);
  // Fills the strip with output rows [top, top + num_rows) of `width` samples.
  void resample_rows(const Component& component, int width, int top, int num_rows, Strip& strip);
  // Converts row `index` of the strips to pixels, with room for kBlock pixels past the end.
  const std::uint8_t* convert_row(ColorModel model, PixelFormat format, int index, int width);
  void draw_upright(const Picture& picture, int width, int height, PixelFormat format, std::uint8_t* out,
                    std::size_t stride);

  const Kernels& kernels_;
  TapsCache taps_;
  std::array<Strip, 4> strips_;
  std::vector<const std::uint8_t*> row_pointers_;
  Buffer blended_;
  Buffer columns_;
  Buffer blended_columns_;
  Buffer line_;
  Buffer unturned_;
};

}  // namespace spdl
