// Planar YUV of 8 bits, scaled down to rgb24, or of an odd height and not scaled, with the bits of libswscale in less than half of
// its time.
//
// libswscale goes from planes to rgb24 in one step, whose vertical filter is plain C. To planes it has vector code with
// the same rounding (`accurate_rnd`). So planes are scaled to 4:2:2, which is what it holds chroma at for rgb24, and the
// tables that it looks colours up in (libswscale/yuv2rgb.c, ff_yuv2rgb_c_init_tables) do the rest. It holds luma beyond
// 0 and 255, where a filter overshoots, until the tables; pictures in which that may be are left to it.
// One thread per object.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "av/owners.h"

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
  static constexpr int kHeadroom = 512;
  static constexpr int kTableSize = 1024 + 2 * kHeadroom;

  RgbScaler() = default;
  void make_tables(const int* matrix, bool is_full_range);
  bool reaches_limits() const noexcept;

  av::ScalerPtr context_;
  av::FramePtr planes_;
  bool may_overshoot_ = false;  // the filter of luma has negative weights
  std::array<std::uint8_t, kTableSize> luma_{};
  std::array<int, 256> red_of_v_{}, green_of_u_{}, green_of_v_{}, blue_of_u_{};  // offsets into it
};

}  // namespace spdl
