// Planar YUV of 8 bits, scaled down to rgb24, or of an odd height and not scaled, with the bits of libswscale in less than half of
// its time.
//
// libswscale goes from planes to rgb24 in one step, whose vertical filter is plain C. To planes it has vector code with
// the same rounding (`accurate_rnd`). So planes are scaled to 4:2:2, which is what it holds chroma at for rgb24; of a picture that
// keeps its size only chroma is. What its tables of colours hold is computed (Kernels::swscale_to_rgb). It holds luma beyond
// 0 and 255, where a filter overshoots, until the tables; pictures in which that may be are left to it.
// One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "av/owners.h"
#include "image/kernels.h"

namespace spdl {

class RgbScaler {
 public:
  struct Task {
    int source_width = 0, source_height = 0, source_format = -1, width = 0, height = 0;
    std::string flags;  // libswscale's, by name
    bool is_full_range = false;
    const int* matrix = nullptr;  // of sws_getCoefficients
  };

  // None for tasks that are not known to give the same bits.
  static std::optional<RgbScaler> make(const Task& task);

  // Whether the picture keeps its size, and libswscale's short way for that does not take it: the height is odd.
  static bool keeps_odd_size(const Task& task) noexcept;

  // Writes `height` rows; no byte beside the pixels is touched. False, with rows half written, if libswscale has to do it.
  bool scale(const AVFrame& frame, std::uint8_t* out, std::ptrdiff_t stride);

 private:
  RgbScaler() = default;
  bool fill_planes(const AVFrame& frame);
  bool reaches_limits() const noexcept;

  av::ScalerPtr context_;
  av::FramePtr planes_;
  bool keeps_size_ = false;     // luma is that of the picture, not of `planes_`
  bool may_overshoot_ = false;  // the filter of luma has negative weights
  SwscaleColours colours_{};
};

}  // namespace spdl
