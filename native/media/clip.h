// A clip: pictures of a video at regular intervals, rendered into one slot of a batch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "image/batch.h"
#include "image/transform.h"
#include "media/decoder.h"
#include "media/demuxer.h"

namespace spdl {

// Where in its video a clip begins: at a random picture, all those where the clip fits being equally likely; so that
// the clip is in the middle; or with the picture displayed at a given time.
enum class ClipPlace { kRandom, kMiddle, kTime };

struct ClipRequest {
  const Transform& transform;  // of each picture, all with the same plan
  std::int64_t num_frames = 1;
  std::int64_t stride = 1;     // takes one of every `stride` pictures
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
  std::int64_t length = 0;  // pictures from the video; the last one is repeated to fill the clip
};

// Decodes the groups of pictures that hold the clip. Where the container and the codec allow it, skips pictures that
// the clip does not need. The slot has room for bytes_per_clip(). Throws Error: kStreamNotFound, kDemux, kDecode,
// kImageTooLarge, kConvert (there is no picture at that time); std::bad_alloc; Cancelled.
Clip load_clip(Demuxer& demuxer, const ClipRequest& request, std::uint8_t* slot);

}  // namespace spdl
