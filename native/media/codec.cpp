#include "media/codec.h"

extern "C" {
#include <libavutil/channel_layout.h>
}

#include <utility>

#include "av/check.h"
#include "av/colours.h"

namespace spdl {

CodecPtr make_codec(MediaType type, const AVCodecParameters& parameters, AVRational time_base, AVRational frame_rate,
                    bool is_complete, std::vector<av::SideData> side_data) {
  auto codec = std::make_shared<Codec>();
  codec->type = type;
  codec->parameters = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  av::check(avcodec_parameters_copy(codec->parameters.get(), &parameters), ErrorKind::kOpen, "copy codec parameters");
  av::forget_unknown_colours(*codec->parameters);
  codec->time_base = time_base;
  codec->frame_rate = frame_rate;
  codec->is_complete = is_complete;
  codec->side_data = std::move(side_data);
  AVChannelLayout& layout = codec->parameters->ch_layout;
  if (type == MediaType::kAudio && layout.order == AV_CHANNEL_ORDER_UNSPEC && layout.nb_channels > 0) {
    // Filters refuse what has no layout. This is what libav guesses when it looks into a stream.
    av_channel_layout_default(&layout, layout.nb_channels);
  }
  return codec;
}

}  // namespace spdl
