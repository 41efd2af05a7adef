// From frames to packets. One thread per object.

#pragma once

#include <optional>
#include <string>

#include "av/options.h"
#include "av/owners.h"
#include "media/codec.h"
#include "media/frames.h"
#include "media/packets.h"

namespace spdl {

struct VideoEncodeConfig {
  int height = 0;
  int width = 0;
  std::optional<AVRational> frame_rate;
  std::string pix_fmt;
  std::optional<std::int64_t> bit_rate;
  std::optional<int> compression_level, qscale, gop_size, max_b_frames;
  std::optional<std::string> colorspace, color_primaries, color_trc;
};

struct AudioEncodeConfig {
  int num_channels = 0;
  int sample_rate = 0;
  std::string sample_fmt;
  std::optional<std::int64_t> bit_rate;
  std::optional<int> compression_level, qscale;
};

class Encoder {
 public:
  // `encoder`: by name. `global_header`: what the container wants. Throws Error(kEncode): unknown encoder or option,
  // format that it does not take (the message lists those it takes).
  Encoder(const VideoEncodeConfig& config, const AVCodec& encoder, const av::Options& options, bool global_header);
  Encoder(const AudioEncodeConfig& config, const AVCodec& encoder, const av::Options& options, bool global_header);

  // Throws Error(kEncode) for frames that differ from what the encoder was made for; names both.
  Packets encode(Frames frames);
  Packets flush();
  int frame_size() const noexcept;  // samples per frame; 0: any
  AVCodecContext& context() const noexcept { return *context_; }

 private:
  av::CodecContextPtr context_;
  MediaType type_;
};

}  // namespace spdl
