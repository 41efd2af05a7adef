#include "av/names.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <array>
#include <cinttypes>
#include <cstdio>

namespace spdl::av {

AVPixelFormat pixel_format_of(int number) noexcept {
  return can_hold<AV_PIX_FMT_NB>(number) ? static_cast<AVPixelFormat>(number) : AV_PIX_FMT_NONE;
}

AVSampleFormat sample_format_of(int number) noexcept {
  return can_hold<AV_SAMPLE_FMT_NB>(number) ? static_cast<AVSampleFormat>(number) : AV_SAMPLE_FMT_NONE;
}

std::string pixel_format_name(int format) {
  const char* name = av_get_pix_fmt_name(pixel_format_of(format));
  return name != nullptr ? name : "none";
}

std::string sample_format_name(int format) {
  const char* name = av_get_sample_fmt_name(sample_format_of(format));
  return name != nullptr ? name : "none";
}

std::string channel_layout_spec(const AVChannelLayout& layout) {
  std::array<char, 128> text{};
  if (layout.order == AV_CHANNEL_ORDER_NATIVE) {
    std::snprintf(text.data(), text.size(), "0x%" PRIx64, layout.u.mask);
  } else if (layout.order == AV_CHANNEL_ORDER_UNSPEC) {
    std::snprintf(text.data(), text.size(), "%dc", layout.nb_channels);
  } else if (av_channel_layout_describe(&layout, text.data(), text.size()) < 0) {
    return {};
  }
  return text.data();
}

AVPixelFormat parse_pixel_format(const std::string& name, ErrorKind kind, const char* action) {
  const AVPixelFormat format = av_get_pix_fmt(name.c_str());
  if (format == AV_PIX_FMT_NONE) {
    throw Error(kind, action, "unknown pixel format '" + name + "'");
  }
  return format;
}

AVSampleFormat parse_sample_format(const std::string& name, ErrorKind kind, const char* action) {
  const AVSampleFormat format = av_get_sample_fmt(name.c_str());
  if (format == AV_SAMPLE_FMT_NONE) {
    throw Error(kind, action, "unknown sample format '" + name + "'");
  }
  return format;
}

}  // namespace spdl::av
