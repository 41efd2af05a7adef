#include "media/rgb_scaler.h"

extern "C" {
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <utility>

namespace spdl {
namespace {

bool is_planar_yuv(int format) noexcept {
  switch (format) {
    case AV_PIX_FMT_YUV420P:
    case AV_PIX_FMT_YUV422P:
    case AV_PIX_FMT_YUV444P:
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
      return true;
    default:
      return false;
  }
}

// As Scaler sets up its context, but for the target.
av::ScalerPtr make_context(const RgbScaler::Task& task) {
  // What Scaler tells of where chroma lies: -513 is "not told", 128 is halfway between two lines.
  const int chroma_row = task.source_format == AV_PIX_FMT_YUV420P ? 128 : -513;
  const int range = task.is_full_range ? 1 : 0;
  auto context = av::own<av::ScalerPtr>(sws_alloc_context());
  const std::pair<const char*, int> numbers[] = {
      {"srcw", task.source_width}, {"srch", task.source_height},     {"src_format", task.source_format},
      {"dstw", task.width},        {"dsth", task.height},            {"dst_format", AV_PIX_FMT_YUV422P},
      {"src_h_chr_pos", -513},     {"src_v_chr_pos", chroma_row},    {"dst_h_chr_pos", -513},
      {"dst_v_chr_pos", -513},     {"src_range", range},             {"dst_range", range},
  };
  for (const auto& [name, value] : numbers) {
    if (av_opt_set_int(context.get(), name, value, 0) < 0) {
      return nullptr;
    }
  }
  const std::string flags = task.flags + "+accurate_rnd";
  if (av_opt_set(context.get(), "sws_flags", flags.c_str(), 0) < 0 ||
      sws_init_context(context.get(), nullptr, nullptr) < 0) {
    return nullptr;
  }
  constexpr int kNeutral = 1 << 16;
  sws_setColorspaceDetails(context.get(), task.matrix, range, task.matrix, range, 0, kNeutral, kNeutral);
  return context;
}

}  // namespace

bool RgbScaler::keeps_odd_size(const Task& task) noexcept {
  constexpr int kLeast = 16;  // below, filters are cut off at both ends
  const bool is_420 = task.source_format == AV_PIX_FMT_YUV420P || task.source_format == AV_PIX_FMT_YUVJ420P;
  return is_420 && task.width == task.source_width && task.height == task.source_height && task.height % 2 == 1 &&
         task.width % 2 == 0 && task.width >= kLeast && task.height >= kLeast && task.flags.empty();
}

std::optional<RgbScaler> RgbScaler::make(const Task& task) {
  const bool has_lobes = task.flags.empty() || task.flags == "bicubic" || task.flags == "lanczos";
  // Upwards, the filter may be so short that libswscale takes other ways; odd widths share chroma across the end.
  const bool keeps_size = keeps_odd_size(task);
  const bool is_smaller = task.height < task.source_height && task.width < task.source_width;
  if ((!has_lobes && task.flags != "bilinear" && task.flags != "area") || !is_planar_yuv(task.source_format) ||
      task.width % 2 != 0 || task.width < 2 || (!is_smaller && !keeps_size)) {
    return std::nullopt;
  }
  RgbScaler scaler;
  scaler.may_overshoot_ = has_lobes && !keeps_size;
  Task whole = task;
  if (whole.flags.empty()) {
    whole.flags = "bicubic";  // libswscale's default
  }
  scaler.context_ = make_context(whole);
  if (scaler.context_ == nullptr) {
    return std::nullopt;
  }
  scaler.planes_ = av::new_frame();
  scaler.planes_->width = task.width;
  scaler.planes_->height = task.height;
  scaler.planes_->format = AV_PIX_FMT_YUV422P;
  if (av_frame_get_buffer(scaler.planes_.get(), 0) < 0) {
    return std::nullopt;
  }
  scaler.make_tables(task.matrix, task.is_full_range);
  return scaler;
}

void RgbScaler::make_tables(const int* matrix, bool is_full_range) {
  constexpr std::int64_t kOne = 1 << 16;
  const std::int64_t luma = is_full_range ? kOne : kOne * 255 / 219;
  const std::int64_t black = is_full_range ? 0 : 16 * kOne;
  // What a step of chroma is in steps of luma.
  const auto in_luma = [&](std::int64_t coefficient) {
    const std::int64_t scaled = is_full_range ? coefficient * 224 / 255 : coefficient;
    return (scaled * kOne + kOne / 2) / luma;
  };
  std::int64_t value = -384 * kOne - kHeadroom * luma - black;
  for (std::uint8_t& entry : luma_) {
    entry = static_cast<std::uint8_t>(std::clamp<std::int64_t>((value + kOne / 2) >> 16, 0, 255));
    value += luma;
  }
  const int zero = (is_full_range ? 384 : 326) + kHeadroom;
  const auto fill = [](std::array<int, 256>& offsets, int origin, std::int64_t step) {
    for (int i = 0; i < 256; ++i) {
      offsets[static_cast<std::size_t>(i)] = origin - static_cast<int>(step >> 9) + static_cast<int>((i * step) >> 16);
    }
  };
  fill(red_of_v_, zero, in_luma(matrix[0]));
  fill(blue_of_u_, zero, in_luma(matrix[1]));
  fill(green_of_u_, zero, in_luma(-matrix[2]));
  fill(green_of_v_, 0, in_luma(-matrix[3]));
}

bool RgbScaler::reaches_limits() const noexcept {
  unsigned found = 0;
  for (int y = 0; y < planes_->height; ++y) {
    const std::uint8_t* row = planes_->data[0] + static_cast<std::ptrdiff_t>(y) * planes_->linesize[0];
    for (int x = 0; x < planes_->width; ++x) {
      found |= static_cast<unsigned>(static_cast<std::uint8_t>(row[x] + 1) < 2);  // 0 or 255
    }
  }
  return found != 0;
}

bool RgbScaler::scale(const AVFrame& frame, std::uint8_t* out, std::ptrdiff_t stride) {
  if (sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, planes_->data, planes_->linesize) < 0 ||
      (may_overshoot_ && reaches_limits())) {
    return false;
  }
  const auto row_of = [&](int plane, int y) {
    return planes_->data[plane] + static_cast<std::ptrdiff_t>(y) * planes_->linesize[plane];
  };
  for (int y = 0; y < planes_->height; ++y) {
    const std::uint8_t* luma = row_of(0, y);
    const std::uint8_t* u = row_of(1, y);
    const std::uint8_t* v = row_of(2, y);
    std::uint8_t* to = out + y * stride;
    for (int x = 0; x < planes_->width / 2; ++x) {
      const std::uint8_t* red = luma_.data() + red_of_v_[v[x]];
      const std::uint8_t* green = luma_.data() + green_of_u_[u[x]] + green_of_v_[v[x]];
      const std::uint8_t* blue = luma_.data() + blue_of_u_[u[x]];
      const std::uint8_t first = luma[2 * x];
      const std::uint8_t second = luma[2 * x + 1];
      to[0] = red[first];
      to[1] = green[first];
      to[2] = blue[first];
      to[3] = red[second];
      to[4] = green[second];
      to[5] = blue[second];
      to += 6;
    }
  }
  return true;
}

}  // namespace spdl
