#include "media/codec.h"

#include "av/check.h"

namespace spdl {

CodecPtr make_codec(MediaType type, const AVCodecParameters& parameters, AVRational time_base, AVRational frame_rate) {
  auto codec = std::make_shared<Codec>();
  codec->type = type;
  codec->parameters = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  av::check(avcodec_parameters_copy(codec->parameters.get(), &parameters), ErrorKind::kOpen, "copy codec parameters");
  codec->time_base = time_base;
  codec->frame_rate = frame_rate;
  return codec;
}

}  // namespace spdl
