// A clip: some pictures of a video, at a regular distance, rendered into one slot of a batch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "image/batch.h"
#include "image/transform.h"
#include "media/decoder.h"
#include "media/demuxer.h"

namespace spdl {

// Where in its video a clip begins: at a picture, of which each is as likely, at which it fits; in the middle; or with
// the picture that is displayed at a time.
enum class ClipPlace { kRandom, kMiddle, kTime };

struct ClipRequest {
  const Transform& transform;  // of each picture, all with the same plan
  std::int64_t num_frames = 1;
  std::int64_t stride = 1;     // every so many pictures one is taken
  ClipPlace place = ClipPlace::kMiddle;
  double time = 0;             // in seconds, with kTime
  std::uint64_t seed = 0;
  bool has_channels_first = false;  // of the whole clip: (channels, frames, height, width)
  std::int64_t max_pixels = kDefaultMaxPixels;
  std::optional<int> stream;
  DecodeConfig decode;

  std::size_t bytes_per_clip() const noexcept {
    return static_cast<std::size_t>(num_frames) * transform.bytes_per_image();
  }
};

struct Clip {
  Plan plan;
  double start = 0;         // when the first picture is displayed, in seconds
  std::int64_t length = 0;  // pictures from the video; the last one is repeated behind them
};

// Decodes the groups of pictures that hold the clip, and no picture that nothing in it needs, where the container and
// the codec allow it. The slot has room for bytes_per_clip().
// Throws Error: kStreamNotFound, kDemux, kDecode, kImageTooLarge, kConvert (there is no picture at that time);
// std::bad_alloc; Cancelled.
Clip load_clip(Demuxer& demuxer, const ClipRequest& request, std::uint8_t* slot);

}  // namespace spdl
