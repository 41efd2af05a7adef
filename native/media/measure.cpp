#include "media/measure.h"

#include <utility>

#include "av/check.h"
#include "av/log.h"

namespace spdl {
namespace {

// Null if none comes out.
av::FramePtr first_frame(AVCodecContext& context, const Packets& packets) {
  av::FramePtr frame = av::new_frame();
  for (std::size_t i = 0; i <= packets.packets.size(); ++i) {
    const AVPacket* packet = i < packets.packets.size() ? packets.packets[i].get() : nullptr;
    // A packet that the decoder refuses is as good as none.
    static_cast<void>(avcodec_send_packet(&context, packet));
    if (avcodec_receive_frame(&context, frame.get()) >= 0) {
      return frame;
    }
  }
  return nullptr;
}

}  // namespace

CodecPtr measure(const Packets& packets) {
  if (!packets.codec || packets.codec->is_complete) {
    return packets.codec;
  }
  const Codec& codec = *packets.codec;
  const AVCodec* decoder = avcodec_find_decoder(codec.parameters->codec_id);
  if (decoder == nullptr) {
    return packets.codec;
  }
  const auto context = av::own<av::CodecContextPtr>(avcodec_alloc_context3(decoder));
  av::mark_as_ours(*context);
  context->thread_count = 1;
  if (avcodec_parameters_to_context(context.get(), codec.parameters.get()) < 0 ||
      avcodec_open2(context.get(), decoder, nullptr) < 0) {
    return packets.codec;
  }
  const av::FramePtr frame = first_frame(*context, packets);
  auto found = std::make_shared<Codec>();
  found->type = codec.type;
  found->time_base = codec.time_base;
  found->frame_rate = codec.frame_rate;
  found->side_data = codec.side_data;
  found->parameters = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  AVCodecParameters& parameters = *found->parameters;
  av::check(avcodec_parameters_copy(&parameters, codec.parameters.get()), ErrorKind::kMedia, "copy codec parameters");
  if (codec.type == MediaType::kAudio) {
    parameters.format = frame ? frame->format : context->sample_fmt;
    if (frame) {
      parameters.sample_rate = frame->sample_rate;
      av::check(av_channel_layout_copy(&parameters.ch_layout, &frame->ch_layout), ErrorKind::kMedia,
                "copy a channel layout");
    }
  } else if (frame) {
    parameters.format = frame->format;
    parameters.width = frame->width;
    parameters.height = frame->height;
    if (frame->sample_aspect_ratio.num != 0) {
      parameters.sample_aspect_ratio = frame->sample_aspect_ratio;
    }
  }
  return found;
}

}  // namespace spdl
