// Frames that were serialized: whatever the bytes are, the planes of the result lie inside of them.

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
}

#include <cstdlib>

#include "av/names.h"
#include "fuzz/serialized.h"
#include "fuzz/target.h"
#include "media/serialize_frames.h"

namespace {

void touch_picture(const AVFrame& frame) {
  const auto format = spdl::av::pixel_format_of(frame.format);
  const AVPixFmtDescriptor* description = av_pix_fmt_desc_get(format);
  for (int plane = 0; plane < av_pix_fmt_count_planes(format); ++plane) {
    const int row = av_image_get_linesize(format, frame.width, plane);
    const bool is_chroma = plane == 1 || plane == 2;
    const int height =
        is_chroma ? AV_CEIL_RSHIFT(frame.height, static_cast<int>(description->log2_chroma_h)) : frame.height;
    for (int y = 0; y < height && row > 0 && frame.data[plane] != nullptr; ++y) {
      spdl::fuzz_touch({frame.data[plane] + std::ptrdiff_t{y} * frame.linesize[plane], static_cast<std::size_t>(row)});
    }
  }
}

void touch_samples(const AVFrame& frame) {
  const auto format = spdl::av::sample_format_of(frame.format);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  const auto bytes = static_cast<std::size_t>(av_get_bytes_per_sample(format)) * static_cast<std::size_t>(frame.nb_samples);
  const int num_planes = is_planar ? frame.ch_layout.nb_channels : 1;
  for (int plane = 0; plane < num_planes; ++plane) {
    spdl::fuzz_touch(
        {frame.extended_data[plane], is_planar ? bytes : bytes * static_cast<std::size_t>(frame.ch_layout.nb_channels)});
  }
}

}  // namespace

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::FuzzInput input = spdl::split(data);
  const spdl::Frames frames = spdl::deserialize_frames(input.in_band, input.out_of_band);
  for (const auto& frame : frames.frames) {
    frames.type == spdl::MediaType::kAudio ? touch_samples(*frame) : touch_picture(*frame);
  }
  const spdl::Frames copy = frames.clone();
  const spdl::Serialized again = spdl::serialize(copy);
  if (spdl::deserialize_frames(again.in_band, again.out_of_band).frames.size() != frames.frames.size()) {
    std::abort();
  }
}
