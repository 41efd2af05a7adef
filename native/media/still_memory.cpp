#include "media/still_memory.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
}

#include <cstring>
#include <new>

#include "av/check.h"
#include "base/error.h"

namespace spdl {

void allocate_pixels(AVFrame& frame) {
  av::check(av_frame_get_buffer(&frame, 0), ErrorKind::kDecode, "decode");
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const AVPixFmtDescriptor& description = *av_pix_fmt_desc_get(format);
  if ((description.flags & AV_PIX_FMT_FLAG_PAL) != 0) {
    std::memset(frame.data[1], 0, AVPALETTE_SIZE);
  }
  for (int plane = 0; plane < av_pix_fmt_count_planes(format); ++plane) {
    const bool is_chroma = plane == 1 || plane == 2;
    const int rows = is_chroma ? AV_CEIL_RSHIFT(frame.height, description.log2_chroma_h) : frame.height;
    const int used = av_image_get_linesize(format, frame.width, plane);
    for (int y = 0; y < rows; ++y) {
      const std::ptrdiff_t start = std::ptrdiff_t{y} * frame.linesize[plane];
      std::memset(frame.data[plane] + start + used, 0, static_cast<std::size_t>(frame.linesize[plane] - used));
    }
  }
}

void add_profile(AVFrame& frame, Bytes profile) {
  if (profile.empty()) {
    return;
  }
  AVFrameSideData* data = av_frame_new_side_data(&frame, AV_FRAME_DATA_ICC_PROFILE, profile.size());
  if (data == nullptr) {
    throw std::bad_alloc();
  }
  std::memcpy(data->data, profile.data(), profile.size());
}

}  // namespace spdl
