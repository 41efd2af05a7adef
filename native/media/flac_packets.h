// Frames from packets of FLAC, without libavcodec's decoder where they are right: it takes twice as long.
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
  // None if the decoder that was opened is not for FLAC, works with several threads, or has other options than those
  // that say what is damage. The context must outlive the object.
  static std::optional<FlacPackets> of(AVCodecContext& context, const av::Options& options);

  // None if the packet is not a whole and right frame of the stream: libavcodec then says what it is.
  av::FramePtr decode(const AVPacket& packet);

 private:
  FlacPackets(AVCodecContext& context, FlacDecoder decoder) : context_(&context), decoder_(std::move(decoder)) {}

  AVCodecContext* context_;
  FlacDecoder decoder_;
};

}  // namespace spdl
