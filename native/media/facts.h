// What a container says about itself and its streams, without decoding anything. Values only.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/owners.h"
#include "image/orientation.h"

namespace spdl {

// In the order in which the container has them.
using Tags = std::vector<std::pair<std::string, std::string>>;

struct StreamFacts {
  int index = 0;
  std::string type;   // "audio", "video", "subtitle", "data", "attachment" or "other"
  std::string codec;  // FFmpeg's name, or "unknown"
  std::optional<std::string> profile;
  std::optional<double> start;     // seconds
  std::optional<double> duration;  // seconds
  AVRational time_base{0, 1};
  std::optional<std::int64_t> bit_rate;
  std::optional<std::int64_t> num_frames;  // as the header counts them
  bool is_default = false;
  bool is_cover = false;
  Tags tags;

  // Of pictures.
  int height = 0;
  int width = 0;
  std::optional<AVRational> frame_rate;
  std::optional<AVRational> sample_aspect_ratio;
  Orientation orientation = Orientation::kUpright;
  std::optional<std::string> pix_fmt;
  std::optional<std::string> color_space, color_range, color_primaries, color_trc;

  // Of sound.
  int sample_rate = 0;
  int num_channels = 0;
  std::optional<std::string> channel_layout;
  std::optional<std::string> sample_fmt;
};

struct ContainerFacts {
  std::string format;
  std::optional<double> start;
  std::optional<double> duration;
  std::optional<std::int64_t> bit_rate;
  Tags tags;
  std::vector<StreamFacts> streams;
};

ContainerFacts facts_of(AVFormatContext& context);

// Whether it is a picture that goes with the media, which libav takes for a video.
inline bool is_cover(const AVStream& stream) noexcept { return (stream.disposition & AV_DISPOSITION_ATTACHED_PIC) != 0; }

// How to turn the pictures of a stream for display: upright, unless the container has a display matrix that turns by a
// multiple of 90 degrees or mirrors.
Orientation display_orientation(const AVStream& stream);

}  // namespace spdl
