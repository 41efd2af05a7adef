// Converts 8-bit planar YUV to rgb24, scaled down, or unscaled with an odd height. Gives the same bits as libswscale in
// less than half the time.
//
// libswscale converts planes to rgb24 in one step, whose vertical filter is plain C. For planes as output it has vector
// code with the same rounding (`accurate_rnd`). So this scales the planes to 4:2:2, the chroma resolution that
// libswscale uses for rgb24; for a picture that keeps its size, only the chroma. The colour tables are computed instead
// (Kernels::swscale_to_rgb). Where a filter overshoots, libswscale keeps luma beyond 0 and 255 up to the tables;
// pictures where this may happen are left to libswscale. One thread per object.

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

  // None for tasks where the same bits are not certain.
  static std::optional<RgbScaler> make(const Task& task);

  // Whether the picture keeps its size and has an odd height, which libswscale's fast path does not support.
  static bool keeps_odd_size(const Task& task) noexcept;

  // Writes `height` rows, and no bytes outside the pixels. False, with rows partly written, if libswscale must do it.
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
