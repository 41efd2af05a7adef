#include "media/stored_samples.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

#include "base/error.h"
#include "image/bytes.h"

namespace spdl {

av::FramePtr new_stored_samples(const StoredSamples& samples, int width, int height) {
  const std::int64_t row = std::int64_t{width} * samples.pixel_bytes();
  if (row > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::kImageTooLarge, "decode", "a row of it has " + std::to_string(row) + " bytes");
  }
  av::FramePtr frame = av::new_frame();
  frame->width = width;
  frame->height = height;
  frame->linesize[0] = static_cast<int>(row);
  frame->buf[0] = av_buffer_alloc(static_cast<std::size_t>(row) * static_cast<std::size_t>(height));
  frame->opaque_ref = av_buffer_alloc(sizeof(samples));
  if (frame->buf[0] == nullptr || frame->opaque_ref == nullptr) {
    throw std::bad_alloc();
  }
  frame->data[0] = frame->buf[0]->data;
  std::memcpy(frame->opaque_ref->data, &samples, sizeof(samples));
  return frame;
}

float from_half(std::uint32_t bits) noexcept {
  const std::uint32_t exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  const float size = exponent == 0 ? std::ldexp(fraction, -24)
                     : exponent < 31 ? std::ldexp(fraction + 1024, static_cast<int>(exponent) - 25)
                     : fraction == 0 ? std::numeric_limits<float>::infinity()
                                     : std::numeric_limits<float>::quiet_NaN();
  return (bits & 0x8000) != 0 ? -size : size;
}

av::FramePtr as_stored_floats(const AVFrame& frame) {
  const AVPixFmtDescriptor& format = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  const std::size_t size = static_cast<std::size_t>(format.comp[0].depth) / 8;
  const bool is_big = (format.flags & AV_PIX_FMT_FLAG_BE) != 0;
  const auto num_channels = static_cast<std::size_t>(format.nb_components);
  av::FramePtr stored = new_stored_samples({kFloat32, format.nb_components}, frame.width, frame.height);
  for (std::size_t channel = 0; channel < num_channels; ++channel) {
    const AVComponentDescriptor& component = format.comp[channel];
    for (int y = 0; y < frame.height; ++y) {
      const std::uint8_t* from =
          frame.data[component.plane] + std::ptrdiff_t{y} * frame.linesize[component.plane] + component.offset;
      std::uint8_t* out = stored->data[0] + std::ptrdiff_t{y} * stored->linesize[0] + channel * sizeof(float);
      for (int x = 0; x < frame.width; ++x, from += component.step, out += num_channels * sizeof(float)) {
        const Bytes sample(from, size);
        const std::uint32_t bits = is_big ? big_endian(sample, 0, size) : little_endian(sample, 0, size);
        const float value = size == 4 ? std::bit_cast<float>(bits) : from_half(bits);
        std::memcpy(out, &value, sizeof(value));
      }
    }
  }
  return stored;
}

std::optional<StoredSamples> stored_samples(const AVFrame& frame) noexcept {
  StoredSamples samples;
  if (frame.format != AV_PIX_FMT_NONE || frame.opaque_ref == nullptr || frame.opaque_ref->size != sizeof(samples)) {
    return std::nullopt;
  }
  std::memcpy(&samples, frame.opaque_ref->data, sizeof(samples));
  return samples;
}

// JEITA CP-3451 (EXIF), 4.6.4, Orientation: what the first row and the first column of the stored picture are.
av::FramePtr turn_samples(const AVFrame& frame, int orientation) {
  const StoredSamples samples = stored_samples(frame).value();
  const bool swaps_sides = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const auto bytes = static_cast<std::size_t>(samples.pixel_bytes());
  av::FramePtr turned = swaps_sides ? new_stored_samples(samples, frame.height, frame.width)
                                    : new_stored_samples(samples, frame.width, frame.height);
  std::uint8_t* out = turned->data[0];
  for (int y = 0; y < turned->height; ++y) {
    for (int x = 0; x < turned->width; ++x, out += bytes) {
      const int across = swaps_sides ? y : x;
      const int down = swaps_sides ? x : y;
      const int column = from_right ? frame.width - 1 - across : across;
      const int row = from_bottom ? frame.height - 1 - down : down;
      std::memcpy(out, frame.data[0] + std::ptrdiff_t{row} * frame.linesize[0] + static_cast<std::size_t>(column) * bytes,
                  bytes);
    }
  }
  return turned;
}

}  // namespace spdl
