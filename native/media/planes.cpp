#include "media/planes.h"

extern "C" {
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "av/check.h"
#include "av/names.h"
#include "base/error.h"

namespace spdl {
namespace {

constexpr const char* kConvert = "convert the decoded picture of";

bool has(const AVPixFmtDescriptor& format, unsigned flag) noexcept { return (format.flags & flag) != 0; }

bool is_palette(const AVPixFmtDescriptor& format) noexcept { return has(format, AV_PIX_FMT_FLAG_PAL); }

// Gray with or without alpha, RGB in any order, a palette of it: their components need no arithmetic between them.
bool is_gray_or_rgb(const AVPixFmtDescriptor& format) noexcept {
  if (has(format, AV_PIX_FMT_FLAG_HWACCEL) || has(format, AV_PIX_FMT_FLAG_FLOAT) ||
      has(format, AV_PIX_FMT_FLAG_BAYER) || format.comp[0].depth > 16) {
    return false;
  }
  return is_palette(format) || has(format, AV_PIX_FMT_FLAG_RGB) || format.nb_components <= 2;
}

// One plane for each component, and one byte for each sample.
bool has_plain_planes(const AVPixFmtDescriptor& format) noexcept {
  if (has(format, AV_PIX_FMT_FLAG_HWACCEL) || has(format, AV_PIX_FMT_FLAG_RGB) || format.nb_components < 3) {
    return false;
  }
  for (int i = 0; i < 3; ++i) {
    const AVComponentDescriptor& component = format.comp[i];
    if (component.depth != 8 || component.step != 1 || component.plane != i || component.shift != 0) {
      return false;
    }
  }
  return true;
}

bool is_bt601(const AVFrame& frame) noexcept {
  return frame.colorspace == AVCOL_SPC_UNSPECIFIED || frame.colorspace == AVCOL_SPC_BT470BG ||
         frame.colorspace == AVCOL_SPC_SMPTE170M;
}

// And the matrix that the Renderer knows for pictures of all kinds.
bool is_plain_ycbcr(const AVPixFmtDescriptor& format, const AVFrame& frame) noexcept {
  return has_plain_planes(format) && is_bt601(frame);
}

// Whether rows of the plane may be read kRowPadding bytes past their end, the last one too.
bool is_padded(const AVFrame& frame, int plane, int width, int height) noexcept {
  const std::uint8_t* data = frame.data[plane];
  const AVBufferRef* memory = av_frame_get_plane_buffer(const_cast<AVFrame*>(&frame), plane);
  if (data == nullptr || memory == nullptr || frame.linesize[plane] < width || data < memory->data) {
    return false;
  }
  const std::size_t end = static_cast<std::size_t>(data - memory->data) +
                          static_cast<std::size_t>(frame.linesize[plane]) * static_cast<std::size_t>(height - 1) +
                          static_cast<std::size_t>(width) + kRowPadding;
  return end <= memory->size;
}

bool is_full_range(const AVFrame& frame, const AVPixFmtDescriptor& format) noexcept {
  return frame.color_range == AVCOL_RANGE_JPEG || std::string_view(format.name).starts_with("yuvj");
}

using Levels = std::array<std::uint8_t, 256>;

// ITU-R BT.601, 2.5.3: from levels between black at `zero` and `zero + range` to 0 … 255.
Levels stretched(int zero, int range, int middle) noexcept {
  Levels levels{};
  for (int i = 0; i < 256; ++i) {
    const int scaled = 255 * (i - zero);
    const int rounded = (scaled + (scaled < 0 ? -range / 2 : range / 2)) / range;
    levels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::clamp(rounded + middle, 0, 255));
  }
  return levels;
}

const Levels& luma_levels() noexcept {
  static const Levels levels = stretched(16, 219, 0);
  return levels;
}

const Levels& chroma_levels() noexcept {
  static const Levels levels = stretched(128, 224, 128);
  return levels;
}

// Copies rows, through a table where there is one.
void copy_plane(const AVFrame& frame, std::size_t plane, const Component& to, std::uint8_t* out, const Levels* levels) {
  const std::uint8_t* from = frame.data[plane];
  for (int y = 0; y < to.height; ++y) {
    if (levels == nullptr) {
      std::memcpy(out, from, static_cast<std::size_t>(to.width));
    } else {
      for (int x = 0; x < to.width; ++x) {
        out[x] = (*levels)[from[x]];
      }
    }
    from += frame.linesize[plane];
    out += to.stride;
  }
}

// What is 0 and what is 255 in samples of more or fewer bits than 8.
struct SampleRange {
  unsigned black;
  unsigned white;

  std::uint8_t to_8_bits(unsigned value) const noexcept {
    const unsigned range = white - black;
    const unsigned above = std::clamp(value, black, white) - black;
    return static_cast<std::uint8_t>((above * 255U + range / 2) / range);
  }
};

// Limited range: ITU-R BT.2100, table 9, which has the levels of 8 bits times powers of two.
SampleRange sample_range(int depth, bool is_limited) noexcept {
  if (is_limited && depth >= 8) {
    return {16U << (depth - 8), 235U << (depth - 8)};
  }
  return {0, (1U << depth) - 1};
}

// One component of a palette, whose entries are 0xAARRGGBB in the processor's order.
Levels of_palette(const std::uint8_t* palette, int component) noexcept {
  constexpr std::array kShifts = {16, 8, 0, 24};
  Levels levels{};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    std::uint32_t colour = 0;
    std::memcpy(&colour, palette + 4 * i, sizeof(colour));
    levels[i] = static_cast<std::uint8_t>(colour >> kShifts[static_cast<std::size_t>(component)]);
  }
  return levels;
}

bool is_opaque(const Component& alpha) noexcept {
  for (int y = 0; y < alpha.height; ++y) {
    const std::uint8_t* row = alpha.data + static_cast<std::size_t>(y) * alpha.stride;
    if (std::find_if(row, row + alpha.width, [](std::uint8_t level) { return level != 255; }) != row + alpha.width) {
      return false;
    }
  }
  return true;
}

// MULDIV255 of Pillow's src/libImaging/ImagingUtils.h: level * alpha / 255 to the nearest.
std::uint8_t weighed(std::uint8_t level, std::uint8_t alpha) noexcept {
  const unsigned product = level * unsigned{alpha} + 128U;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

}  // namespace

std::uint8_t* PlaneMaker::add(Picture& picture, int width, int height) {
  const auto index = static_cast<std::size_t>(picture.num_components++);
  Component& component = picture.components[index];
  component.width = width;
  component.height = height;
  component.extent_x = width;
  component.extent_y = height;
  component.held = {0, 0, height, width};
  component.stride = round_up(static_cast<std::size_t>(width), kRowPadding) + kRowPadding;
  std::uint8_t* out = planes_[index].reserve(component.stride * static_cast<std::size_t>(height));
  component.data = out;
  return out;
}

void PlaneMaker::take_apart(const AVFrame& frame, bool with_alpha, Picture& picture) {
  const auto pixel_format = static_cast<AVPixelFormat>(frame.format);
  const AVPixFmtDescriptor& format = *av_pix_fmt_desc_get(pixel_format);
  const bool palette = is_palette(format);
  const bool gray = !palette && !has(format, AV_PIX_FMT_FLAG_RGB);
  picture.model = gray ? ColorModel::kGray : ColorModel::kRgb;
  const bool is_limited = gray && frame.color_range == AVCOL_RANGE_MPEG;
  const auto width = static_cast<std::size_t>(frame.width);
  const int num_colours = gray ? 1 : 3;
  for (int i = 0; i < num_colours + (with_alpha ? 1 : 0); ++i) {
    const AVComponentDescriptor& component = format.comp[palette ? 0 : i];
    const bool bytes = component.depth == 8 && component.shift == 0 && !has(format, AV_PIX_FMT_FLAG_BITSTREAM);
    const SampleRange range = sample_range(component.depth, is_limited && i < num_colours);
    const Levels entries = palette ? of_palette(frame.data[1], i) : Levels{};
    auto* samples = reinterpret_cast<std::uint16_t*>(line_.reserve(2 * width));
    std::uint8_t* out = add(picture, frame.width, frame.height);
    const std::size_t stride = picture.components[static_cast<std::size_t>(i)].stride;
    for (int y = 0; y < frame.height; ++y, out += stride) {
      const std::uint8_t* row = frame.data[component.plane] + std::ptrdiff_t{y} * frame.linesize[component.plane];
      if (palette) {
        for (std::size_t x = 0; x < width; ++x) {
          out[x] = entries[row[x]];
        }
      } else if (bytes) {
        row += component.offset;
        for (std::size_t x = 0; x < width; ++x) {
          out[x] = row[x * static_cast<std::size_t>(component.step)];
        }
        if (is_limited && i < num_colours) {
          std::transform(out, out + width, out, [&levels = luma_levels()](std::uint8_t level) { return levels[level]; });
        }
      } else {
        const std::uint8_t* data[4] = {frame.data[0], frame.data[1], frame.data[2], frame.data[3]};
        av_read_image_line2(samples, data, frame.linesize, &format, 0, y, i, frame.width, 0, sizeof(*samples));
        const unsigned flip = pixel_format == AV_PIX_FMT_MONOWHITE ? 1U : 0U;
        for (std::size_t x = 0; x < width; ++x) {
          out[x] = range.to_8_bits(samples[x] ^ flip);
        }
      }
    }
  }
}

void PlaneMaker::copy_ycbcr(const AVFrame& frame, bool luma_only, Picture& picture) {
  const AVPixFmtDescriptor& format = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  const bool full = is_full_range(frame, format);
  picture.model = luma_only ? ColorModel::kGray : ColorModel::kYCbCr;
  for (std::size_t i = 0; i < (luma_only ? 1U : 3U); ++i) {
    const int shift_x = i == 0 ? 0 : format.log2_chroma_w;
    const int shift_y = i == 0 ? 0 : format.log2_chroma_h;
    const Levels* levels = full ? nullptr : i == 0 ? &luma_levels() : &chroma_levels();
    std::uint8_t* out = add(picture, AV_CEIL_RSHIFT(frame.width, shift_x), AV_CEIL_RSHIFT(frame.height, shift_y));
    Component& component = picture.components[i];
    component.extent_x = static_cast<double>(frame.width) / (1 << shift_x);
    component.extent_y = static_cast<double>(frame.height) / (1 << shift_y);
    copy_plane(frame, i, component, out, levels);
  }
}

void PlaneMaker::prepare_scaler(const Scaled& wanted) {
  if (scaler_ != nullptr && scaled_ == wanted) {
    return;
  }
  scaler_ = nullptr;
  auto scaler = av::own<av::ScalerPtr>(sws_alloc_context());
  const auto set = [&](const char* name, int value) {
    av::check(av_opt_set_int(scaler.get(), name, value, 0), ErrorKind::kDecode, kConvert);
  };
  set("srcw", wanted.width);
  set("srch", wanted.height);
  set("dstw", wanted.width);
  set("dsth", wanted.height);
  set("src_format", wanted.format);
  set("dst_format", wanted.with_alpha ? AV_PIX_FMT_GBRAP : AV_PIX_FMT_GBRP);
  set("sws_flags", SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP);
  const AVPixFmtDescriptor& format = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(wanted.format));
  // Chroma in the middle of the samples it belongs to, in 256ths of a luma sample.
  set("src_h_chr_pos", format.log2_chroma_w == 1 ? 128 : -513);
  set("src_v_chr_pos", format.log2_chroma_h == 1 ? 128 : -513);
  av::check(sws_init_context(scaler.get(), nullptr, nullptr), ErrorKind::kDecode, kConvert);
  // Fails for formats without a matrix, such as RGB in floats, and changes nothing there.
  sws_setColorspaceDetails(scaler.get(), sws_getCoefficients(wanted.matrix), wanted.is_full_range ? 1 : 0,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  scaler_ = std::move(scaler);
  scaled_ = wanted;
}

void PlaneMaker::scale(const AVFrame& frame, bool with_alpha, Picture& picture) {
  picture.model = ColorModel::kRgb;
  const auto from = static_cast<AVPixelFormat>(frame.format);
  if (sws_isSupportedInput(from) == 0) {
    throw Error(ErrorKind::kDecode, kConvert, "its pixel format " + av::pixel_format_name(from) + " cannot be read");
  }
  const bool is_full = is_full_range(frame, *av_pix_fmt_desc_get(from));
  prepare_scaler({frame.width, frame.height, frame.format, frame.colorspace, is_full, with_alpha});
  std::uint8_t* red = add(picture, frame.width, frame.height);
  std::uint8_t* green = add(picture, frame.width, frame.height);
  std::uint8_t* blue = add(picture, frame.width, frame.height);
  std::uint8_t* alpha = with_alpha ? add(picture, frame.width, frame.height) : nullptr;
  const int stride = static_cast<int>(picture.components[0].stride);
  std::uint8_t* const out[4] = {green, blue, red, alpha};
  const int strides[4] = {stride, stride, stride, with_alpha ? stride : 0};
  av::ScalerPtr scaler = std::move(scaler_);  // which is not used again after an error
  av::check(sws_scale(scaler.get(), frame.data, frame.linesize, 0, frame.height, out, strides), ErrorKind::kDecode,
            kConvert);
  scaler_ = std::move(scaler);
}

void PlaneMaker::settle_alpha(bool premultiply, Picture& picture) {
  const auto num_colours = static_cast<std::size_t>(--picture.num_components);
  const Component& alpha = picture.components[num_colours];
  picture.has_alpha = !is_opaque(alpha);
  picture.is_premultiplied = picture.has_alpha && premultiply;
  if (!picture.is_premultiplied) {
    return;
  }
  for (std::size_t i = 0; i < num_colours; ++i) {
    for (int y = 0; y < alpha.height; ++y) {
      const std::size_t at = static_cast<std::size_t>(y) * alpha.stride;
      std::uint8_t* row = planes_[i].data() + at;
      std::transform(row, row + alpha.width, alpha.data + at, row, weighed);
    }
  }
}

Picture PlaneMaker::make(const AVFrame& frame, const PlanesWanted& wanted) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  if (format == nullptr || frame.width < 1 || frame.height < 1) {
    throw Error(ErrorKind::kDecode, "decode", "the decoder returned a picture without a size or format");
  }
  const bool with_alpha = wanted.keep_alpha && has(*format, AV_PIX_FMT_FLAG_ALPHA);
  Picture picture;
  if (is_gray_or_rgb(*format)) {
    take_apart(frame, with_alpha, picture);
  } else if (!with_alpha && !wanted.full_rgb && is_plain_ycbcr(*format, frame)) {
    copy_ycbcr(frame, wanted.luma_only, picture);
  } else {
    scale(frame, with_alpha, picture);
  }
  if (with_alpha) {
    settle_alpha(wanted.premultiply, picture);
  }
  return picture;
}

Picture PlaneMaker::view(const AVFrame& frame, const PlanesWanted& wanted) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  const bool is_known = is_bt601(frame) || frame.colorspace == AVCOL_SPC_BT709;
  if (format == nullptr || frame.width < 1 || frame.height < 1 || wanted.luma_only || wanted.full_rgb ||
      wanted.keep_alpha || !is_known || !has_plain_planes(*format)) {
    return make(frame, wanted);
  }
  Picture picture;
  picture.model = ColorModel::kYCbCr;
  picture.num_components = 3;
  picture.matrix = is_bt601(frame) ? YcbcrMatrix::kBt601 : YcbcrMatrix::kBt709;
  picture.is_limited_range = !is_full_range(frame, *format);
  for (int i = 0; i < 3; ++i) {
    const int shift_x = i == 0 ? 0 : format->log2_chroma_w;
    const int shift_y = i == 0 ? 0 : format->log2_chroma_h;
    Component& component = picture.components[static_cast<std::size_t>(i)];
    component.width = AV_CEIL_RSHIFT(frame.width, shift_x);
    component.height = AV_CEIL_RSHIFT(frame.height, shift_y);
    component.extent_x = static_cast<double>(frame.width) / (1 << shift_x);
    component.extent_y = static_cast<double>(frame.height) / (1 << shift_y);
    component.held = {0, 0, component.height, component.width};
    if (!is_padded(frame, i, component.width, component.height)) {
      return make(frame, wanted);
    }
    component.data = frame.data[i];
    component.stride = static_cast<std::size_t>(frame.linesize[i]);
  }
  return picture;
}

void PlaneMaker::trim(std::size_t keep_bytes) noexcept {
  // It has some dozens of rows, of up to 16 bytes for a pixel.
  constexpr std::size_t kBytesPerColumn = 1024;
  if (static_cast<std::size_t>(scaled_.width) > keep_bytes / kBytesPerColumn) {
    scaler_ = nullptr;
  }
  for (Buffer* buffer : {&planes_[0], &planes_[1], &planes_[2], &planes_[3], &line_}) {
    if (buffer->capacity() > keep_bytes) {
      buffer->release();
    }
  }
}

}  // namespace spdl
