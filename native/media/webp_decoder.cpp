#include "media/webp_decoder.h"

#ifdef SPDL_LIBWEBP

#include <dlfcn.h>
#include <webp/decode.h>

#include <algorithm>
#include <cstddef>

#include "base/buffer.h"
#include "image/webp.h"
#include "media/still_memory.h"

namespace spdl {
namespace {

// WebPBitstreamFeatures.format
constexpr int kLossy = 1;
constexpr int kLossless = 2;

av::FramePtr new_picture(const WebPBitstreamFeatures& features, AVPixelFormat format) {
  av::FramePtr frame = av::new_frame();
  frame->format = format;
  frame->width = features.width;
  frame->height = features.height;
  if (format != AV_PIX_FMT_ARGB) {
    frame->colorspace = AVCOL_SPC_BT470BG;  // RFC 6386, 9.2
  }
  allocate_pixels(*frame);
  return frame;
}

std::size_t plane_bytes(int stride, int rows) noexcept {
  return static_cast<std::size_t>(stride) * static_cast<std::size_t>(rows);
}

void give_memory(WebPDecBuffer& output, AVFrame& frame) noexcept {
  output.is_external_memory = 1;
  if (frame.format == AV_PIX_FMT_ARGB) {
    output.colorspace = MODE_ARGB;
    output.u.RGBA = {frame.data[0], frame.linesize[0], plane_bytes(frame.linesize[0], frame.height)};
    return;
  }
  const bool with_alpha = frame.format == AV_PIX_FMT_YUVA420P;
  const int chroma_rows = (frame.height + 1) / 2;
  output.colorspace = with_alpha ? MODE_YUVA : MODE_YUV;
  WebPYUVABuffer& planes = output.u.YUVA;
  planes.y = frame.data[0];
  planes.u = frame.data[1];
  planes.v = frame.data[2];
  planes.a = frame.data[3];
  planes.y_stride = frame.linesize[0];
  planes.u_stride = frame.linesize[1];
  planes.v_stride = frame.linesize[2];
  planes.a_stride = frame.linesize[3];
  planes.y_size = plane_bytes(planes.y_stride, frame.height);
  planes.u_size = plane_bytes(planes.u_stride, chroma_rows);
  planes.v_size = plane_bytes(planes.v_stride, chroma_rows);
  planes.a_size = with_alpha ? plane_bytes(planes.a_stride, frame.height) : 0;
}

}  // namespace

std::string libwebp_version() {
  const int version = WebPGetDecoderVersion();
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff) + "." + std::to_string(version & 0xff);
}

const char* libwebp_path() noexcept {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&WebPGetDecoderVersion), &found) != 0 && found.dli_fname != nullptr
             ? found.dli_fname
             : "";
}

av::FramePtr decode_webp(Bytes webp, std::int64_t max_pixels) {
  // Others may write to the caller's memory meanwhile, and libwebp reads headers more than once.
  Buffer copy;
  std::copy(webp.begin(), webp.end(), copy.reserve(webp.size()));
  const Bytes data(copy.data(), webp.size());
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0 || WebPGetFeatures(data.data(), data.size(), &config.input) != VP8_STATUS_OK) {
    return nullptr;
  }
  const WebPBitstreamFeatures features = config.input;
  const bool is_known = features.has_animation == 0 && (features.format == kLossy || features.format == kLossless);
  if (!is_known || features.width < 1 || features.height < 1 ||
      std::int64_t{features.width} * features.height > max_pixels) {
    return nullptr;
  }
  const AVPixelFormat format = features.format == kLossless            ? AV_PIX_FMT_ARGB
                               : find_webp_chunk(data, "ALPH").empty() ? AV_PIX_FMT_YUV420P
                                                                       : AV_PIX_FMT_YUVA420P;
  av::FramePtr frame = new_picture(features, format);
  give_memory(config.output, *frame);
  if (WebPDecode(data.data(), data.size(), &config) != VP8_STATUS_OK) {
    return nullptr;
  }
  add_profile(*frame, find_webp_chunk(data, "ICCP"));
  return frame;
}

}  // namespace spdl

#else

namespace spdl {

std::string libwebp_version() { return {}; }

const char* libwebp_path() noexcept { return ""; }

av::FramePtr decode_webp(Bytes, std::int64_t) { return nullptr; }

}  // namespace spdl

#endif
