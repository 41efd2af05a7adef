#include "media/planar_floats.h"

extern "C" {
#include <libavutil/samplefmt.h>
}

#include <cstdint>
#include <new>
#include <utility>

namespace spdl {
namespace {

// Factors and the order of operations are those of libswresample/audioconvert.c. All factors are powers of two, so that
// rounding happens in the conversion to float alone.
float to_float(std::uint8_t value) noexcept { return static_cast<float>(value - 0x80) * (1.0F / (1 << 7)); }
float to_float(std::int16_t value) noexcept { return static_cast<float>(value) * (1.0F / (1 << 15)); }
float to_float(std::int32_t value) noexcept { return static_cast<float>(value) * (1.0F / (1U << 31)); }
float to_float(float value) noexcept { return value; }
float to_float(double value) noexcept { return static_cast<float>(value); }

// `step`: a compile-time constant where that lets the loop be vectorised.
template <class Sample, class Step>
void convert_channel(const Sample* from, Step step, int count, float* to) noexcept {
  for (int i = 0; i < count; ++i) {
    to[i] = to_float(from[i * step]);
  }
}

template <int value>
using Constant = std::integral_constant<int, value>;

template <class Sample>
void convert(const AVFrame& from, bool is_planar, std::uint8_t* const* to) noexcept {
  const int num_channels = from.ch_layout.nb_channels;
  for (int channel = 0; channel < num_channels; ++channel) {
    auto* out = reinterpret_cast<float*>(to[channel]);
    if (is_planar || num_channels == 1) {
      convert_channel(reinterpret_cast<const Sample*>(from.extended_data[channel]), Constant<1>(), from.nb_samples, out);
      continue;
    }
    const Sample* first = reinterpret_cast<const Sample*>(from.extended_data[0]) + channel;
    if (num_channels == 2) {
      convert_channel(first, Constant<2>(), from.nb_samples, out);
    } else {
      convert_channel(first, num_channels, from.nb_samples, out);
    }
  }
}

using Convert = void (*)(const AVFrame&, bool, std::uint8_t* const*) noexcept;

Convert converter_of(int format) noexcept {
  switch (av_get_packed_sample_fmt(static_cast<AVSampleFormat>(format))) {
    case AV_SAMPLE_FMT_U8:
      return &convert<std::uint8_t>;
    case AV_SAMPLE_FMT_S16:
      return &convert<std::int16_t>;
    case AV_SAMPLE_FMT_S32:
      return &convert<std::int32_t>;
    case AV_SAMPLE_FMT_FLT:
      return &convert<float>;
    case AV_SAMPLE_FMT_DBL:
      return &convert<double>;
    default:
      return nullptr;
  }
}

}  // namespace

bool asks_for_planar_floats(const std::string& description) noexcept { return description == "aformat=sample_fmts=fltp"; }

bool can_be_planar_floats(const AVFrame& frame) noexcept {
  return frame.ch_layout.order != AV_CHANNEL_ORDER_UNSPEC && frame.ch_layout.nb_channels > 0 && frame.nb_samples > 0 &&
         frame.sample_rate > 0 && converter_of(frame.format) != nullptr;
}

av::FramePtr to_planar_floats(av::FramePtr frame) {
  if (frame->format == AV_SAMPLE_FMT_FLTP) {
    return frame;
  }
  av::FramePtr out = av::new_frame();
  if (av_frame_copy_props(out.get(), frame.get()) < 0 ||
      av_channel_layout_copy(&out->ch_layout, &frame->ch_layout) < 0) {
    throw std::bad_alloc();
  }
  out->format = AV_SAMPLE_FMT_FLTP;
  out->nb_samples = frame->nb_samples;
  out->sample_rate = frame->sample_rate;
  if (av_frame_get_buffer(out.get(), 0) < 0) {
    throw std::bad_alloc();
  }
  write_planar_floats(*frame, out->extended_data);
  return out;
}

void write_planar_floats(const AVFrame& frame, std::uint8_t* const* channels) noexcept {
  const bool is_planar = av_sample_fmt_is_planar(static_cast<AVSampleFormat>(frame.format)) != 0;
  converter_of(frame.format)(frame, is_planar, channels);
}

}  // namespace spdl
