// Size and pixel format of pictures, changed by libswscale without a filter graph around it.
//
// The result has the same bits as that of libavfilter's `scale` with the same flags, at a fraction of the cost of a graph for
// small pictures. scale_rules.h finds out what that filter does. One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "av/owners.h"
#include "media/kept_scaler.h"

namespace spdl {

struct ScaleTarget {
  int width = 0;  // 0: that of the source
  int height = 0;
  std::string flags;  // names of libswscale's flags; empty: its default
  AVPixelFormat format = AV_PIX_FMT_NONE;
};

// The target of a filter description that only scales: an optional `scale` with numbers as sizes and flags, and a
// `format` of one pixel format. None for all other descriptions.
std::optional<ScaleTarget> parse_scale(const std::string& description);

class Scaler {
 public:
  explicit Scaler(ScaleTarget target) : target_(std::move(target)) {}

  // Whether libswscale can scale the frame like this, with the bits of the filter.
  bool takes(const AVFrame& frame);

  // A new frame, or the given one if there is nothing to do. Only for frames that `takes` accepts. Throws Error(kFilter).
  av::FramePtr scale(av::FramePtr frame);

  // The same into the caller's memory, for packed formats (one plane): `height` rows, `stride` bytes apart. Bytes between the rows
  // are not written.
  void scale_into(const AVFrame& frame, std::uint8_t* out, std::ptrdiff_t stride);

  int width_of(const AVFrame& frame) const noexcept { return target_.width > 0 ? target_.width : frame.width; }
  int height_of(const AVFrame& frame) const noexcept { return target_.height > 0 ? target_.height : frame.height; }

 private:
  bool has_nothing_to_do(const AVFrame& frame) const noexcept;
  bool prepare(const AVFrame& frame);
  void run(const AVFrame& frame, std::uint8_t* const planes[], const int strides[]);
  void try_rgb(const AVFrame& frame, const std::uint8_t* expected, std::ptrdiff_t stride);
  void try_rgb_once(const AVFrame& frame, const std::uint8_t* expected, std::ptrdiff_t stride);

  ScaleTarget target_;
  KeptScalerPtr work_;
  int num_refused_ = 0;  // frames that RgbScaler left to libswscale
  av::FramePtr scratch_;
};

}  // namespace spdl
