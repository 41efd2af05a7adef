// Size and pixel format of pictures, changed by libswscale without a filter graph around it.
//
// Gives bit for bit what libavfilter's `scale` gives with the same flags (libavfilter/vf_scale.c: which ranges, matrices
// and chroma positions it tells libswscale), at a fraction of the cost of a graph for small pictures. One thread per
// object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "av/owners.h"
#include "media/rgb_scaler.h"

namespace spdl {

struct ScaleTarget {
  int width = 0;  // 0: the source's
  int height = 0;
  std::string flags;  // libswscale's, by name; empty: its default
  AVPixelFormat format = AV_PIX_FMT_NONE;
};

// What a filter description asks for if it does no more than that: an optional `scale` with sizes in figures and flags,
// and a `format` of one pixel format. None for all others.
std::optional<ScaleTarget> parse_scale(const std::string& description);

class Scaler {
 public:
  explicit Scaler(ScaleTarget target) : target_(std::move(target)) {}

  // Whether libswscale can do this to the frame.
  bool takes(const AVFrame& frame);

  // A picture of its own, or the frame itself if there is nothing to do. For frames that it takes. Throws Error(kFilter).
  av::FramePtr scale(av::FramePtr frame);

  // The same into memory of the caller's, of packed pixels (one plane): `height` rows, `stride` bytes apart. No byte
  // beside the pixels is touched.
  void scale_into(const AVFrame& frame, std::uint8_t* out, std::ptrdiff_t stride);

  int width_of(const AVFrame& frame) const noexcept { return target_.width > 0 ? target_.width : frame.width; }
  int height_of(const AVFrame& frame) const noexcept { return target_.height > 0 ? target_.height : frame.height; }

 private:
  struct Input {
    int width = 0, height = 0, format = -1, range = 0, matrix = 0;
    bool operator==(const Input&) const = default;
  };

  bool has_nothing_to_do(const AVFrame& frame) const noexcept;
  int prepare(const AVFrame& frame);  // libav's code
  void run(const AVFrame& frame, std::uint8_t* const planes[], const int strides[]);
  void try_rgb(const AVFrame& frame, const std::uint8_t* expected, std::ptrdiff_t stride);

  ScaleTarget target_;
  Input input_;  // what the context is made for
  av::ScalerPtr context_;
  bool is_full_range_ = false;  // of what comes out
  RgbScaler::Task task_;         // the same as the context's, for `rgb_`
  std::optional<RgbScaler> rgb_;
  int num_scaled_ = 0;   // without it
  int num_refused_ = 0;  // by it
  av::FramePtr scratch_;
};

}  // namespace spdl
