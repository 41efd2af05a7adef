// Converts a decoded frame of any pixel format to 8-bit planes that a Renderer draws.
//
// Gray and RGB of any depth and order are split into planes exactly (deeper samples are rounded to 8 bits). 8-bit
// BT.601 YCbCr keeps its subsampled planes, so that its chroma is resampled once. Everything else goes through swscale
// at full size. Alpha is left out unless it is wanted: transparent pixels then show their stored colour. A PlaneMaker
// owns the planes of its last picture and the context that scaled it, and reuses them. One thread per object.

#pragma once

#include <array>
#include <cstdint>

#include "av/owners.h"
#include "base/buffer.h"
#include "image/picture.h"

namespace spdl {

class PlaneMaker {
 public:
  // The result is valid until the next call; it does not refer to the frame. Throws Error(kDecode) for a format that
  // swscale cannot read.
  Picture make(const AVFrame& frame, const PlanesWanted& wanted);

  // The same, but without a copy if the frame's own planes are suitable: 8-bit YCbCr, BT.601 or BT.709, when RGB is
  // wanted. The frame must then outlive the picture.
  Picture view(const AVFrame& frame, const PlanesWanted& wanted);

  // Frees memory if a large picture has left more than `keep_bytes`.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  // A plane for component `index` of the picture, of that size, that covers all of it.
  std::uint8_t* add(Picture& picture, int width, int height);
  void take_apart(const AVFrame& frame, bool with_alpha, Picture& picture);
  void copy_ycbcr(const AVFrame& frame, bool luma_only, Picture& picture);
  void scale(const AVFrame& frame, bool with_alpha, Picture& picture);
  // For a picture whose last component is alpha: removes alpha if all pixels are opaque, else multiplies colours by it
  // if `premultiply`.
  void settle_alpha(bool premultiply, Picture& picture);

  // The parameters of a libswscale context.
  struct Scaled {
    int width = 0, height = 0, format = -1, matrix = 0;
    bool is_full_range = false, with_alpha = false;
    bool operator==(const Scaled&) const = default;
  };
  void prepare_scaler(const Scaled& wanted);

  std::array<Buffer, 4> planes_;
  av::ScalerPtr scaler_;
  Scaled scaled_;
  Buffer line_;
};

}  // namespace spdl
