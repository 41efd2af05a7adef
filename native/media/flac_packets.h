// Decodes valid FLAC packets to frames without libavcodec's decoder, which takes twice as long.
//
// The frames are those that libavcodec gives, in its sample format. One thread per object.

#pragma once

#include <optional>

#include "av/options.h"
#include "av/owners.h"
#include "media/flac_decoder.h"

namespace spdl {

class FlacPackets {
 public:
  // None if the opened decoder is not for FLAC, works with several threads, or has options other than those for damage
  // detection. The context must outlive the object.
  static std::optional<FlacPackets> of(AVCodecContext& context, const av::Options& options);

  // None if the packet is not one whole, valid frame of the stream: libavcodec then decodes or rejects it.
  av::FramePtr decode(const AVPacket& packet);

 private:
  FlacPackets(AVCodecContext& context, FlacDecoder decoder) : context_(&context), decoder_(std::move(decoder)) {}

  AVCodecContext* context_;
  FlacDecoder decoder_;
};

}  // namespace spdl
