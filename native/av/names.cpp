#include "av/names.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

namespace spdl::av {

std::string pixel_format_name(int format) {
  const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(format));
  return name != nullptr ? name : "none";
}

std::string sample_format_name(int format) {
  const char* name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(format));
  return name != nullptr ? name : "none";
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
