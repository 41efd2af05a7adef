#include "media/webp_animation.h"

#include "media/packets.h"

#ifdef SPDL_LIBWEBP

#include <webp/decode.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "av/compat.h"
#include "media/still_memory.h"

namespace spdl {
namespace {

constexpr std::size_t kPixel = 4;

// libwebp, src/demux/anim_decode.c, BlendPixelNonPremult and BlendChannelNonPremult: with its rounding.
void blend(std::uint8_t* over, const std::uint8_t* under) noexcept {
  const unsigned alpha = over[3];
  if (alpha == 0) {
    std::memcpy(over, under, kPixel);
    return;
  }
  const unsigned under_alpha = under[3] * (256 - alpha) >> 8;
  const unsigned sum = alpha + under_alpha;
  const std::uint32_t scale = (1U << 24) / sum;
  for (int i = 0; i < 3; ++i) {
    over[i] = static_cast<std::uint8_t>((over[i] * alpha + under[i] * under_alpha) * scale >> 24);
  }
  over[3] = static_cast<std::uint8_t>(sum);
}

bool holds(const WebpAnimationFrame& frame, int x, int y) noexcept {
  return x >= frame.left && x < frame.left + frame.width && y >= frame.top && y < frame.top + frame.height;
}

// `pixels`: RGBA without padding.
av::FramePtr new_frame(const AVCodecContext& context, const std::uint8_t* pixels) {
  av::FramePtr frame = av::new_frame();
  frame->format = context.pix_fmt == AV_PIX_FMT_RGB24 ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_RGBA;
  frame->width = context.width;
  frame->height = context.height;
  allocate_pixels(*frame);
  const auto width = static_cast<std::size_t>(context.width);
  for (int y = 0; y < context.height; ++y, pixels += width * kPixel) {
    std::uint8_t* const row = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    if (frame->format == AV_PIX_FMT_RGBA) {
      std::memcpy(row, pixels, width * kPixel);
      continue;
    }
    for (std::size_t x = 0; x < width; ++x) {
      std::memcpy(row + 3 * x, pixels + kPixel * x, 3);
    }
  }
  return frame;
}

}  // namespace

av::FramePtr WebpAnimation::decode(const AVPacket& packet) {
  const int width = context_->width;
  const int height = context_->height;
  // Others may write to the caller's memory meanwhile, and libwebp reads headers more than once.
  Buffer copy;
  std::copy_n(packet.data, packet.size, copy.reserve(static_cast<std::size_t>(packet.size)));
  auto found = animation_frame({copy.data(), static_cast<std::size_t>(packet.size)});
  WebPDecoderConfig config;
  if (!found || found->width > width - found->left || found->height > height - found->top ||
      WebPInitDecoderConfig(&config) == 0 ||
      WebPGetFeatures(found->picture.data(), found->picture.size(), &config.input) != VP8_STATUS_OK ||
      config.input.width != found->width || config.input.height != found->height || config.input.has_animation != 0) {
    return nullptr;
  }
  const bool is_key = !before_ || (packet.flags & AV_PKT_FLAG_KEY) != 0;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * kPixel;
  const std::size_t canvas_bytes = row_bytes * static_cast<std::size_t>(height);
  const auto offset = [&](int x, int y) { return static_cast<std::size_t>(y) * row_bytes + static_cast<std::size_t>(x) * kPixel; };
  std::uint8_t* const pixels = picture_.reserve(canvas_bytes);
  std::uint8_t* const canvas = canvas_.reserve(canvas_bytes);
  if (is_key) {
    std::memset(pixels, 0, canvas_bytes);
  } else {
    std::memcpy(pixels, canvas, canvas_bytes);
  }
  config.output.is_external_memory = 1;
  config.output.colorspace = MODE_RGBA;
  const std::size_t first = offset(found->left, found->top);
  config.output.u.RGBA = {pixels + first, static_cast<int>(row_bytes),
                          offset(found->left + found->width, found->top + found->height - 1) - first};
  if (WebPDecode(found->picture.data(), found->picture.size(), &config) != VP8_STATUS_OK) {
    return nullptr;
  }
  for (int y = found->top; found->blends && !is_key && y < found->top + found->height; ++y) {
    for (int x = found->left; x < found->left + found->width; ++x) {
      std::uint8_t* const pixel = pixels + offset(x, y);
      // There is nothing beneath it where the last frame was disposed of.
      if (pixel[3] != 255 && !(before_->disposes && holds(*before_, x, y))) {
        blend(pixel, canvas + offset(x, y));
      }
    }
  }
  av::FramePtr frame = new_frame(*context_, pixels);
  std::memcpy(canvas, pixels, canvas_bytes);
  for (int y = found->top; found->disposes && y < found->top + found->height; ++y) {
    std::memset(canvas + offset(found->left, y), 0, static_cast<std::size_t>(found->width) * kPixel);
  }
  found->picture = {};
  before_ = found;
  frame->pts = frame->best_effort_timestamp = packet.pts;
  frame->pkt_dts = packet.dts;
  av::set_frame_duration(*frame, packet.duration);
  return frame;
}

}  // namespace spdl

#else

#include "base/error.h"

namespace spdl {

av::FramePtr WebpAnimation::decode(const AVPacket&) {
  throw Error(ErrorKind::kDecode, "decode",
              "it is an animated WebP, which is composed by libwebp, and this build has none: install its development"
              " files (libwebp-dev on Debian) and build again; load_image gives its first picture");
}

}  // namespace spdl

#endif

namespace spdl {

bool WebpAnimation::is_frame(const AVPacket& packet) noexcept { return has_name(bytes_of(packet), 0, "ANMF"); }

bool WebpAnimation::can_compose(const AVPacket& packet) const noexcept {
  return before_ || (packet.flags & AV_PKT_FLAG_KEY) != 0;
}

}  // namespace spdl
