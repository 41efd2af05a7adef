// What a decoder has to know about a stream before its first packet.
//
// Immutable once made, and shared by reference between packets, decoders and Python: safe to read from any thread.

#pragma once

#include <memory>

#include "av/owners.h"
#include "media/media_type.h"

namespace spdl {

struct Codec {
  MediaType type = MediaType::kVideo;
  av::CodecParametersPtr parameters;
  AVRational time_base{0, 1};
  AVRational frame_rate{0, 1};  // video: as the container guesses it; 0/1 if unknown
};

using CodecPtr = std::shared_ptr<const Codec>;

// Copies the parameters.
CodecPtr make_codec(MediaType type, const AVCodecParameters& parameters, AVRational time_base, AVRational frame_rate);

}  // namespace spdl
