#include "media/deep_levels.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "av/check.h"
#include "media/scaler.h"
#include "media/still_memory.h"

namespace spdl {
namespace {

constexpr int kMostBits = 16;

// Components of 16-bit words that hold nothing else.
bool is_deep(const AVPixFmtDescriptor* format) noexcept {
  constexpr unsigned kOthers = AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BAYER |
                               AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM;
  if (format == nullptr || (format->flags & kOthers) != 0 ||
      (format->nb_components > 2 && (format->flags & AV_PIX_FMT_FLAG_RGB) == 0)) {
    return false;
  }
  for (int i = 0; i < format->nb_components; ++i) {
    const AVComponentDescriptor& component = format->comp[i];
    if (component.depth <= 8 || component.depth > kMostBits || component.shift != 0 || component.step % 2 != 0) {
      return false;
    }
  }
  return true;
}

AVPixelFormat shallow_format(const AVPixFmtDescriptor& format) noexcept {
  switch (format.nb_components) {
    case 1:
      return AV_PIX_FMT_GRAY8;
    case 2:
      return AV_PIX_FMT_YA8;
    case 3:
      return AV_PIX_FMT_RGB24;
    default:
      return AV_PIX_FMT_RGBA;
  }
}

// The same as (2 * 255 * level + 65535) / (2 * 65535) for each of the 65536 levels.
std::uint8_t of_16_bits(std::uint32_t level) noexcept { return static_cast<std::uint8_t>((level * 255 + 32895) >> 16); }

template <bool kIsSwapped>
std::uint32_t word_at(const std::uint8_t* from) noexcept {
  std::uint16_t word;
  std::memcpy(&word, from, sizeof(word));
  return kIsSwapped ? static_cast<std::uint16_t>(word << 8 | word >> 8) : word;
}

// One plane that is all samples of the picture, in the same order.
template <bool kIsSwapped>
void round_row(const std::uint8_t* from, std::size_t count, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = of_16_bits(word_at<kIsSwapped>(from + 2 * i));
  }
}

template <bool kIsSwapped>
void round_row(const std::uint8_t* from, int step, int width, const std::vector<std::uint8_t>& levels, std::uint8_t* out,
               int out_step) noexcept {
  for (int x = 0; x < width; ++x, from += step, out += out_step) {
    const std::uint32_t level = word_at<kIsSwapped>(from);
    *out = levels[level < levels.size() ? level : levels.size() - 1];
  }
}

template <bool kIsSwapped>
void round_picture(const AVFrame& frame, const AVPixFmtDescriptor& format, AVFrame& out) {
  const int count = format.nb_components;
  bool is_packed = true;
  for (int i = 0; i < count; ++i) {
    const AVComponentDescriptor& component = format.comp[i];
    is_packed = is_packed && component.depth == kMostBits && component.plane == 0 && component.offset == 2 * i &&
                component.step == 2 * count;
  }
  const std::uint32_t most = (1U << format.comp[0].depth) - 1;
  std::vector<std::uint8_t> levels;
  for (std::uint32_t level = 0; level <= most && !is_packed; ++level) {
    levels.push_back(static_cast<std::uint8_t>((2 * 255 * level + most) / (2 * most)));
  }
  for (int y = 0; y < frame.height; ++y) {
    std::uint8_t* const row = out.data[0] + std::ptrdiff_t{y} * out.linesize[0];
    if (is_packed) {
      round_row<kIsSwapped>(frame.data[0] + std::ptrdiff_t{y} * frame.linesize[0],
                            static_cast<std::size_t>(frame.width) * static_cast<std::size_t>(count), row);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      const AVComponentDescriptor& component = format.comp[i];
      const std::uint8_t* from =
          frame.data[component.plane] + std::ptrdiff_t{y} * frame.linesize[component.plane] + component.offset;
      round_row<kIsSwapped>(from, component.step, frame.width, levels, row + i, count);
    }
  }
}

}  // namespace

bool wants_8_bits(const std::optional<std::string>& filter) {
  const auto target = filter ? parse_scale(*filter) : std::nullopt;
  const AVPixFmtDescriptor* format = target ? av_pix_fmt_desc_get(target->format) : nullptr;
  return format != nullptr && target->width == 0 && target->height == 0 && format->comp[0].depth == 8;
}

av::FramePtr with_8_bits(av::FramePtr frame) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame->format));
  const bool is_limited = format != nullptr && format->nb_components <= 2 && frame->color_range == AVCOL_RANGE_MPEG;
  if (!is_deep(format) || is_limited) {
    return frame;
  }
  av::FramePtr out = av::new_frame();
  out->format = shallow_format(*format);
  out->width = frame->width;
  out->height = frame->height;
  allocate_pixels(*out);
  av::check(av_frame_copy_props(out.get(), frame.get()), ErrorKind::kFilter, "convert a picture");
  const bool is_big = (format->flags & AV_PIX_FMT_FLAG_BE) != 0;
  const bool is_swapped = is_big != (std::endian::native == std::endian::big);
  (is_swapped ? round_picture<true> : round_picture<false>)(*frame, *format, *out);
  return out;
}

}  // namespace spdl
