#include "media/encode_picture.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <array>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "av/log.h"
#include "av/names.h"
#include "media/muxer.h"

namespace spdl {
namespace {

constexpr const char* kAction = "encode a picture for";

av::FramePtr new_picture(int width, int height, AVPixelFormat format) {
  auto frame = av::new_frame();
  frame->width = width;
  frame->height = height;
  frame->format = format;
  av::check(av_frame_get_buffer(frame.get(), 0), ErrorKind::kEncode, "allocate a picture");
  return frame;
}

// Aligned, and with room behind each row: encoders read past the end of rows.
av::FramePtr copy_in(std::span<const std::uint8_t> pixels, int width, int height, AVPixelFormat format) {
  std::array<std::uint8_t*, 4> planes{};
  std::array<int, 4> strides{};
  av::check(av_image_fill_arrays(planes.data(), strides.data(), pixels.data(), format, width, height, 1),
            ErrorKind::kEncode, kAction);
  auto frame = new_picture(width, height, format);
  std::array<const std::uint8_t*, 4> from{};
  std::copy(planes.begin(), planes.end(), from.begin());
  av_image_copy(frame->data, frame->linesize, from.data(), strides.data(), format, width, height);
  return frame;
}

bool has_alpha(AVPixelFormat format) noexcept { return (av_pix_fmt_desc_get(format)->flags & AV_PIX_FMT_FLAG_ALPHA) != 0; }

AVPixelFormat best_format(const AVCodec& encoder, AVPixelFormat format) {
  auto known = av::supported_pixel_formats(encoder);
  if (encoder.id == AV_CODEC_ID_MJPEG) {
    // JPEG is of full range (JFIF); the encoder lists the others for those who insist.
    std::erase_if(known, [](AVPixelFormat one) { return !av::pixel_format_name(one).starts_with("yuvj"); });
  }
  if (known.empty() || std::find(known.begin(), known.end(), format) != known.end()) {
    return format;
  }
  const AVPixelFormat swapped = av_pix_fmt_swap_endianness(format);
  if (swapped != AV_PIX_FMT_NONE && std::find(known.begin(), known.end(), swapped) != known.end()) {
    return swapped;
  }
  known.push_back(AV_PIX_FMT_NONE);
  return avcodec_find_best_pix_fmt_of_list(known.data(), format, has_alpha(format) ? 1 : 0, nullptr);
}

// Refuses a conversion that would leave out what the array holds. GIF has 256 colours by nature. FFmpeg's BMP has no header
// that says that there is alpha, so readers take it for padding.
void expect_no_loss(const AVCodec& encoder, AVPixelFormat from, AVPixelFormat to, const std::string& name) {
  constexpr int kHasAlpha = 1;
  const int loss = av_get_pix_fmt_loss(to, from, kHasAlpha);
  const bool is_deep = av_pix_fmt_desc_get(from)->comp[0].depth > 8;
  const bool has_few_colours = encoder.id == AV_CODEC_ID_GIF;
  const char* what = nullptr;
  if ((av_pix_fmt_desc_get(to)->flags & AV_PIX_FMT_FLAG_FLOAT) != 0) {
    what = "floating point, and no levels";
  } else if ((loss & FF_LOSS_ALPHA) != 0 || (encoder.id == AV_CODEC_ID_BMP && has_alpha(from))) {
    what = "no alpha";
  } else if ((loss & FF_LOSS_CHROMA) != 0) {
    what = "gray only";
  } else if ((loss & (FF_LOSS_DEPTH | FF_LOSS_COLORQUANT)) != 0 && (is_deep || !has_few_colours)) {
    what = "fewer bits";
  }
  if (what != nullptr) {
    throw Error(ErrorKind::kEncode, kAction,
                "the format of the file (" + std::string(encoder.name) + ") holds " + what + ", and the picture is " +
                    av::pixel_format_name(from) + "; convert it first, or choose .png or .tiff")
        .in(name);
  }
}

// `space`: matrix coefficients of the result where it is YUV; BT.601 without it, which is JPEG's.
av::FramePtr convert(const AVFrame& frame, AVPixelFormat format, const std::optional<std::string>& space,
                     const std::string& name) {
  const av::LogCapture said;
  const auto from = static_cast<AVPixelFormat>(frame.format);
  constexpr int kFlags = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;
  const av::ScalerPtr scaler(sws_getContext(frame.width, frame.height, from, frame.width, frame.height, format, kFlags,
                                            nullptr, nullptr, nullptr));
  if (!scaler) {
    throw Error(ErrorKind::kEncode, kAction,
                "no conversion from " + av::pixel_format_name(from) + " to " + av::pixel_format_name(format) + " " +
                    said.text())
        .in(name);
  }
  const int known = space ? av_color_space_from_name(space->c_str()) : -1;
  if (known >= 0) {
    int* matrix_in = nullptr;
    int* matrix_out = nullptr;
    int range_in = 0, range_out = 0, brightness = 0, contrast = 0, saturation = 0;
    if (sws_getColorspaceDetails(scaler.get(), &matrix_in, &range_in, &matrix_out, &range_out, &brightness, &contrast,
                                 &saturation) >= 0) {
      sws_setColorspaceDetails(scaler.get(), matrix_in, range_in, sws_getCoefficients(known), range_out, brightness,
                               contrast, saturation);
    }
  }
  auto converted = new_picture(frame.width, frame.height, format);
  av::check(sws_scale(scaler.get(), frame.data, frame.linesize, 0, frame.height, converted->data, converted->linesize),
            ErrorKind::kEncode, kAction, name, said);
  return converted;
}

}  // namespace

std::size_t picture_bytes(const VideoEncodeConfig& config) {
  const AVPixelFormat format = av::parse_pixel_format(config.pix_fmt, ErrorKind::kEncode, kAction);
  return static_cast<std::size_t>(av::check(av_image_get_buffer_size(format, config.width, config.height, 1),
                                            ErrorKind::kEncode, kAction));
}

std::vector<std::uint8_t> encode_picture(std::span<const std::uint8_t> pixels, VideoEncodeConfig config,
                                         const std::string& name) {
  const AVPixelFormat given = av::parse_pixel_format(config.pix_fmt, ErrorKind::kEncode, kAction);
  Muxer muxer = Muxer::in_memory(name);
  const AVCodec* codec = &find_encoder(MediaType::kVideo, std::nullopt, muxer.format(), name);
  const AVPixelFormat format = best_format(*codec, given);
  if (format != given) {
    expect_no_loss(*codec, given, format, name);
  }
  auto frame = copy_in(pixels, config.width, config.height, given);
  if (format != given) {
    frame = convert(*frame, format, config.colorspace, name);
  }
  config.pix_fmt = av::pixel_format_name(format);
  config.frame_rate = config.frame_rate.value_or(AVRational{1, 1});
  if (codec->id == AV_CODEC_ID_MJPEG && !config.bit_rate && !config.qscale) {
    config.qscale = 2;
  }
  Encoder encoder = muxer.add_encode_stream(config, codec->name, {});
  Frames frames;
  frames.type = MediaType::kImage;
  frames.frames.push_back(std::move(frame));
  muxer.open({});
  muxer.write(0, encoder.encode(std::move(frames)));
  muxer.write(0, encoder.flush());
  muxer.flush();
  return muxer.take();
}

}  // namespace spdl
