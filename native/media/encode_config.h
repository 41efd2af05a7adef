// What users ask of an encoder. Absent values use the encoder's own default.

#pragma once

extern "C" {
#include <libavutil/rational.h>
}

#include <cstdint>
#include <optional>
#include <string>

namespace spdl {

struct VideoEncodeConfig {
  int height = 0;
  int width = 0;
  std::optional<AVRational> frame_rate;
  std::string pix_fmt;
  std::optional<std::int64_t> bit_rate;  // bit/s
  std::optional<int> compression_level, qscale, gop_size, max_b_frames;
  std::optional<std::string> colorspace, color_primaries, color_trc;
};

struct AudioEncodeConfig {
  int num_channels = 0;
  int sample_rate = 0;
  std::string sample_fmt;
  std::optional<std::int64_t> bit_rate;  // bit/s
  std::optional<int> compression_level, qscale;
};

}  // namespace spdl
