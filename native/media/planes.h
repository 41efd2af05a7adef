// From a decoded frame of any pixel format to planes of 8 bits that a Renderer draws.
//
// Gray and RGB of any depth and order are taken apart exactly (deeper samples to the nearest of 8 bits); YCbCr of 8
// bits and BT.601 keeps its subsampled planes, so that its chroma is resampled once; everything else goes through
// swscale at full size. Alpha is left out unless it is wanted: what is transparent shows the colour that is stored
// there. A PlaneMaker owns the planes of its last picture and the context that scaled it, and uses them again for the
// next. One thread per object.

#pragma once

#include <array>
#include <cstdint>

#include "av/owners.h"
#include "base/buffer.h"
#include "image/picture.h"

namespace spdl {

class PlaneMaker {
 public:
  // Valid until the next call; nothing of the frame is kept.
  // Throws Error(kDecode) for a format that swscale cannot read.
  Picture make(const AVFrame& frame, const PlanesWanted& wanted);

  // The same without a copy where the frame's own planes will do: YCbCr of 8 bits, BT.601 or BT.709, of which RGB is
  // wanted. The frame must then outlive the picture.
  Picture view(const AVFrame& frame, const PlanesWanted& wanted);

  // Gives memory back if a large picture left much of it.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  // A plane for component `index` of the picture, of that size, that covers all of it.
  std::uint8_t* add(Picture& picture, int width, int height);
  void take_apart(const AVFrame& frame, bool with_alpha, Picture& picture);
  void copy_ycbcr(const AVFrame& frame, bool luma_only, Picture& picture);
  void scale(const AVFrame& frame, bool with_alpha, Picture& picture);
  // Of a picture whose last component is alpha: leaves it out where all is opaque, else multiplies if that is wanted.
  void settle_alpha(bool premultiply, Picture& picture);

  // What a context of libswscale was made for.
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
