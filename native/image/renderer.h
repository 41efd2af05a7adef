// Renders a decoded picture into its slot of a batch: resamples each component from its own resolution directly to the
// target grid, converts colours there, and writes elements of the requested type and layout.

#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "image/filter_weights.h"
#include "image/kernels.h"
#include "image/orientation.h"
#include "image/picture.h"
#include "image/plane_resampler.h"
#include "image/slot_writer.h"
#include "image/transform.h"

namespace spdl {

// Which planes the renderer needs from the decoder of a picture.
PlanesWanted planes_wanted(const Transform& transform, const Plan& plan) noexcept;

// Keeps its scratch memory and weights for the next picture. One thread per object.
class Renderer {
 public:
  explicit Renderer(const Kernels& kernels = best_kernels()) : kernels_(kernels) {}

  // Renders the planes that `planes_wanted` requested. `plan` is for the upright picture; `orientation` says how to
  // turn the stored one upright. The slot has room for transform.bytes_per_image(); all of it is written.
  // `plane_stride`: with Layout::kNchw, the distance of the channels' planes in elements; 0 if they are contiguous.
  // Throws std::logic_error if the picture holds fewer samples than the plan needs: a bug of the caller.
  void render(const Picture& picture, Orientation orientation, const Plan& plan, const Transform& transform,
              std::uint8_t* slot, std::size_t plane_stride = 0);

  // Frees scratch memory larger than `keep_bytes`.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  // The exact mode needs the picture that Pillow would resample: upright, with inks converted to light. Valid until the
  // next call.
  Picture to_upright(const Picture& picture, Orientation orientation);
  Picture to_light(const Picture& picture);
  // Channels of row `index` of the resamplers, in the order of `color`.
  ChannelRows convert_row(const Picture& picture, const Transform& transform, int index, int width);
  void to_rgb(ColorModel model, const ChannelRows& components, int width, ChannelRows& rgb);
  void write_transposed(const Picture& picture, const Transform& transform, const Rect& rect, SlotWriter& writer);
  std::uint8_t* line(std::size_t index, int width) noexcept;

  const Kernels& kernels_;
  FilterWeightsCache weights_cache_;
  std::array<PlaneResampler, 4> resamplers_;
  Buffer lines_;
  Buffer packed_;
  std::array<Buffer, 4> untransposed_;
  Buffer transposed_;
  std::array<Buffer, 4> upright_;
  std::array<Buffer, 4> light_;
};

}  // namespace spdl
