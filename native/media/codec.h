// The parameters of a stream that a decoder needs before the first packet.
//
// Immutable once made, and shared by reference between packets, decoders and Python: safe to read from any thread.

#pragma once

#include <memory>
#include <vector>

#include "av/compat.h"
#include "av/owners.h"
#include "media/media_type.h"

namespace spdl {

struct Codec {
  MediaType type = MediaType::kVideo;
  av::CodecParametersPtr parameters;
  AVRational time_base{0, 1};
  AVRational frame_rate{0, 1};  // video: as the container guesses it; 0/1 if unknown
  // Whether the container gave all parameters that users can read. A decoder never needs more than the container gave;
  // see measure.h.
  bool is_complete = true;
  std::vector<av::SideData> side_data;  // side data of the container besides the parameters
};

using CodecPtr = std::shared_ptr<const Codec>;

// Copies the parameters. If the container states only the number of channels, they get the default layout for that
// number.
CodecPtr make_codec(MediaType type, const AVCodecParameters& parameters, AVRational time_base, AVRational frame_rate,
                    bool is_complete = true, std::vector<av::SideData> side_data = {});

}  // namespace spdl
