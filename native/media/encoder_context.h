// Opens libav's encoder contexts as users ask.
//
// One thread unless the options say otherwise: `threads`. `destination` is for messages.

#pragma once

#include <string>

#include "av/options.h"
#include "av/owners.h"
#include "media/encode_config.h"
#include "media/media_type.h"

namespace spdl {

struct EncoderOptions {
  av::Options options;
  bool global_header = false;  // for containers that need parameters separate from the packets
  std::string destination;
};

// The encoder of that name; without one, the default of the format for that destination.
// Throws Error(kEncode): unknown, of the other media type, or the format has none (kMux).
const AVCodec& find_encoder(MediaType type, const std::optional<std::string>& name, const AVOutputFormat& format,
                            const std::string& destination);

// Throws Error(kEncode): a format, rate or number of channels that the encoder does not take (the message lists those it
// takes), an unknown option or name of a colour property, or what libav refuses.
av::CodecContextPtr open_encoder(const AVCodec& encoder, const VideoEncodeConfig& config,
                                 const EncoderOptions& options);
av::CodecContextPtr open_encoder(const AVCodec& encoder, const AudioEncodeConfig& config,
                                 const EncoderOptions& options);

}  // namespace spdl
