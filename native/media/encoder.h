// From frames to packets.
//
// Owns its context, and nothing of the muxer whose stream it was made for: they may be destroyed in any order. One
// thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/owners.h"
#include "media/codec.h"
#include "media/encoder_context.h"
#include "media/frames.h"
#include "media/packets.h"
#include "media/sample_queue.h"

namespace spdl {

class Encoder {
 public:
  // Throws Error(kEncode), see open_encoder.
  Encoder(const AVCodec& encoder, const VideoEncodeConfig& config, const EncoderOptions& options);
  Encoder(const AVCodec& encoder, const AudioEncodeConfig& config, const EncoderOptions& options);

  // Encodes frames and returns the packets that are ready, with the encoder's codec. Time stamps are converted to the
  // encoder's time base (one frame, one sample); frames without one, and images, follow the previous frame. Frames of
  // samples may have any length: they are regrouped to what the encoder takes at a time. Throws Error(kEncode): frames
  // that differ from what the encoder was made for (the message names both; none of the frames was encoded), time
  // stamps that do not grow, use after flush.
  Packets encode(Frames frames);
  // Returns the remaining packets. A second call returns none.
  Packets flush();

  // Samples that the encoder takes at a time; 0: any number.
  int frame_size() const noexcept;
  const CodecPtr& codec() const noexcept { return codec_; }
  // Of the context, for the muxer's stream.
  const AVCodecContext& context() const noexcept { return *context_; }

 private:
  Encoder(av::CodecContextPtr context, MediaType type, const EncoderOptions& options);

  void expect_fit(const AVFrame& frame, bool is_audio) const;
  void encode_picture(AVFrame& frame, std::optional<std::int64_t> pts, Packets& out);
  void encode_samples(av::FramePtr frame, std::optional<std::int64_t> pts, std::int64_t tolerance, Packets& out);
  void send(const AVFrame* frame, Packets& out);
  Packets no_packets() const;

  av::CodecContextPtr context_;
  MediaType type_;
  std::string destination_;
  CodecPtr codec_;
  std::optional<SampleQueue> queue_;  // where the encoder takes a fixed number of samples
  std::optional<std::int64_t> next_;  // the earliest time stamp that the next frame may have
  bool is_flushed_ = false;
};

}  // namespace spdl
