#include "media/encoder_context.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "av/check.h"
#include "av/compat.h"
#include "av/log.h"
#include "av/names.h"

namespace spdl {
namespace {

std::string opening(const AVCodec& encoder) { return "set up the encoder " + std::string(encoder.name) + " for"; }

[[noreturn]] void refuse(const AVCodec& encoder, const EncoderOptions& options, std::string reason) {
  throw Error(ErrorKind::kEncode, opening(encoder), std::move(reason)).in(options.destination);
}

template <class Values, class Name>
std::string join(const Values& values, Name&& name) {
  std::string text;
  for (const auto& value : values) {
    text += (text.empty() ? "" : ", ") + name(value);
  }
  return text;
}

// Of names that libav numbers from 0 on: the number.
template <class FromName, class ToName>
int parse_color(const AVCodec& encoder, const EncoderOptions& options, const char* what, const std::string& name,
                int count, FromName&& from_name, ToName&& to_name) {
  const int value = from_name(name.c_str());
  if (value >= 0) {
    return value;
  }
  std::vector<std::string> known;
  for (int i = 0; i < count; ++i) {
    const char* text = to_name(i);
    if (text != nullptr && std::string(text) != "reserved") {
      known.emplace_back(text);
    }
  }
  refuse(encoder, options,
         std::string("unknown ") + what + " '" + name + "'; known are " +
             join(known, [](const std::string& text) { return text; }));
}

void set_colors(const AVCodec& encoder, const VideoEncodeConfig& config, const EncoderOptions& options,
                AVCodecContext& context) {
  if (config.colorspace) {
    context.colorspace = static_cast<AVColorSpace>(
        parse_color(encoder, options, "colorspace", *config.colorspace, AVCOL_SPC_NB, av_color_space_from_name,
                    [](int i) { return av_color_space_name(static_cast<AVColorSpace>(i)); }));
  }
  if (config.color_primaries) {
    context.color_primaries = static_cast<AVColorPrimaries>(
        parse_color(encoder, options, "color_primaries", *config.color_primaries, AVCOL_PRI_NB,
                    av_color_primaries_from_name,
                    [](int i) { return av_color_primaries_name(static_cast<AVColorPrimaries>(i)); }));
  }
  if (config.color_trc) {
    context.color_trc = static_cast<AVColorTransferCharacteristic>(
        parse_color(encoder, options, "color_trc", *config.color_trc, AVCOL_TRC_NB, av_color_transfer_from_name,
                    [](int i) { return av_color_transfer_name(static_cast<AVColorTransferCharacteristic>(i)); }));
  }
}

AVPixelFormat pixel_format(const AVCodec& encoder, const VideoEncodeConfig& config, const EncoderOptions& options) {
  const AVPixelFormat format = av_get_pix_fmt(config.pix_fmt.c_str());
  if (format == AV_PIX_FMT_NONE) {
    refuse(encoder, options, "unknown pixel format '" + config.pix_fmt + "'");
  }
  const auto known = av::supported_pixel_formats(encoder);
  if (!known.empty() && std::find(known.begin(), known.end(), format) == known.end()) {
    refuse(encoder, options,
           "it does not support the pixel format " + config.pix_fmt + "; supported are " +
               join(known, [](AVPixelFormat value) { return av::pixel_format_name(value); }) +
               ". Convert the frames (FilterGraph with `format`), or choose another encoder");
  }
  return format;
}

AVRational frame_rate(const AVCodec& encoder, const VideoEncodeConfig& config, const EncoderOptions& options) {
  if (config.frame_rate) {
    return *config.frame_rate;
  }
  const auto known = av::supported_frame_rates(encoder);
  if (known.empty()) {
    refuse(encoder, options, "it has no default frame rate: give frame_rate");
  }
  return known.front();
}

AVSampleFormat sample_format(const AVCodec& encoder, const AudioEncodeConfig& config, const EncoderOptions& options) {
  const AVSampleFormat format = av_get_sample_fmt(config.sample_fmt.c_str());
  if (format == AV_SAMPLE_FMT_NONE) {
    refuse(encoder, options, "unknown sample format '" + config.sample_fmt + "'");
  }
  const auto known = av::supported_sample_formats(encoder);
  if (!known.empty() && std::find(known.begin(), known.end(), format) == known.end()) {
    refuse(encoder, options,
           "it does not support the sample format " + config.sample_fmt + "; supported are " +
               join(known, [](AVSampleFormat value) { return av::sample_format_name(value); }) +
               ". Convert the samples (FilterGraph with `aformat`), or choose another encoder");
  }
  return format;
}

void check_sample_rate(const AVCodec& encoder, const AudioEncodeConfig& config, const EncoderOptions& options) {
  const auto known = av::supported_sample_rates(encoder);
  if (!known.empty() && std::find(known.begin(), known.end(), config.sample_rate) == known.end()) {
    refuse(encoder, options,
           "it does not support the sample rate " + std::to_string(config.sample_rate) + "; supported are " +
               join(known, [](int value) { return std::to_string(value); }));
  }
}

// libav's default layout for that many channels if the encoder takes it, else the first of that many that it takes.
void set_channels(const AVCodec& encoder, const AudioEncodeConfig& config, const EncoderOptions& options,
                  AVCodecContext& context) {
  av_channel_layout_default(&context.ch_layout, config.num_channels);
  const auto known = av::supported_channel_layouts(encoder);
  const auto is_default = [&](const AVChannelLayout& layout) {
    return av_channel_layout_compare(&layout, &context.ch_layout) == 0;
  };
  if (known.empty() || std::any_of(known.begin(), known.end(), is_default)) {
    return;
  }
  const auto found = std::find_if(known.begin(), known.end(), [&](const AVChannelLayout& layout) {
    return layout.nb_channels == config.num_channels;
  });
  if (found == known.end()) {
    refuse(encoder, options,
           "it does not support " + std::to_string(config.num_channels) + " channels; supported are " +
               join(known, [](const AVChannelLayout& layout) { return av::channel_layout_name(layout); }));
  }
  av::check(av_channel_layout_copy(&context.ch_layout, &*found), ErrorKind::kEncode, "copy a channel layout");
}

template <class Config>
void set_rate_control(const Config& config, AVCodecContext& context) {
  if (config.bit_rate) {
    context.bit_rate = *config.bit_rate;
  }
  if (config.compression_level) {
    context.compression_level = *config.compression_level;
  }
  if (config.qscale) {
    context.flags |= AV_CODEC_FLAG_QSCALE;
    context.global_quality = FF_QP2LAMBDA * std::min(*config.qscale, std::numeric_limits<int>::max() / FF_QP2LAMBDA);
  }
}

av::CodecContextPtr new_context(const AVCodec& encoder, const EncoderOptions& options) {
  auto context = av::own<av::CodecContextPtr>(avcodec_alloc_context3(&encoder));
  av::mark_as_ours(*context);
  context->thread_count = 1;
  if (options.global_header) {
    context->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  }
  return context;
}

void open(const AVCodec& encoder, const EncoderOptions& options, AVCodecContext& context) {
  const std::string action = opening(encoder);
  av::Dictionary dictionary(options.options);
  const av::LogCapture said;
  av::check(avcodec_open2(&context, &encoder, dictionary.address()), ErrorKind::kEncode, action, options.destination,
            said);
  dictionary.expect_all_used(ErrorKind::kEncode, action.c_str(), options.destination);
}

}  // namespace

const AVCodec& find_encoder(MediaType type, const std::optional<std::string>& name, const AVOutputFormat& format,
                            const std::string& destination) {
  const AVMediaType wanted = type == MediaType::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
  constexpr const char* kAction = "find an encoder for";
  if (name) {
    const AVCodec* found = avcodec_find_encoder_by_name(name->c_str());
    if (found == nullptr) {
      throw Error(ErrorKind::kEncode, kAction, "unknown encoder '" + *name + "'").in(destination);
    }
    if (found->type != wanted) {
      throw Error(ErrorKind::kEncode, kAction,
                  "'" + *name + "' encodes " + av_get_media_type_string(found->type) + ", not " + name_of(type))
          .in(destination);
    }
    return *found;
  }
  const AVCodecID id = av_guess_codec(&format, nullptr, destination.c_str(), nullptr, wanted);
  if (id == AV_CODEC_ID_NONE) {
    throw Error(ErrorKind::kMux, kAction,
                "the format " + std::string(format.name) + " has no default encoder for " + name_of(type))
        .in(destination);
  }
  const AVCodec* found = avcodec_find_encoder(id);
  if (found == nullptr) {
    throw Error(ErrorKind::kEncode, kAction,
                "this FFmpeg has no encoder for " + std::string(avcodec_get_name(id)) + ", the default of the format " +
                    format.name + "; name another one")
        .in(destination);
  }
  return *found;
}

av::CodecContextPtr open_encoder(const AVCodec& encoder, const VideoEncodeConfig& config,
                                 const EncoderOptions& options) {
  auto context = new_context(encoder, options);
  context->width = config.width;
  context->height = config.height;
  context->pix_fmt = pixel_format(encoder, config, options);
  context->framerate = frame_rate(encoder, config, options);
  context->time_base = av_inv_q(context->framerate);
  if (av::pixel_format_name(context->pix_fmt).starts_with("yuvj")) {
    context->color_range = AVCOL_RANGE_JPEG;
  }
  if ((av_pix_fmt_desc_get(context->pix_fmt)->flags & AV_PIX_FMT_FLAG_RGB) != 0) {
    // Codecs of YUV take planar RGB too, and have to be told that it is.
    context->colorspace = AVCOL_SPC_RGB;
  }
  set_colors(encoder, config, options, *context);
  set_rate_control(config, *context);
  if (config.gop_size) {
    context->gop_size = *config.gop_size;
  }
  if (config.max_b_frames) {
    context->max_b_frames = *config.max_b_frames;
  }
  open(encoder, options, *context);
  return context;
}

av::CodecContextPtr open_encoder(const AVCodec& encoder, const AudioEncodeConfig& config,
                                 const EncoderOptions& options) {
  auto context = new_context(encoder, options);
  context->sample_fmt = sample_format(encoder, config, options);
  check_sample_rate(encoder, config, options);
  context->sample_rate = config.sample_rate;
  context->time_base = {1, config.sample_rate};
  set_channels(encoder, config, options, *context);
  set_rate_control(config, *context);
  open(encoder, options, *context);
  return context;
}

}  // namespace spdl
