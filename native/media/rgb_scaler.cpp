#include "media/rgb_scaler.h"

extern "C" {
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cstring>
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

int half_up(int size) noexcept { return (size + 1) / 2; }

struct Plane {
  int width = 0, height = 0, format = -1;
};

// As Scaler sets up its context, but for the target, or for chroma alone.
av::ScalerPtr make_context(const RgbScaler::Task& task, Plane from, Plane to) {
  // What Scaler tells of where chroma lies: -513 is "not told", 128 is halfway between two lines.
  const int chroma_row = from.format == AV_PIX_FMT_YUV420P ? 128 : -513;
  const int range = task.is_full_range ? 1 : 0;
  auto context = av::own<av::ScalerPtr>(sws_alloc_context());
  const std::pair<const char*, int> numbers[] = {
      {"srcw", from.width},    {"srch", from.height},         {"src_format", from.format},
      {"dstw", to.width},      {"dsth", to.height},           {"dst_format", to.format},
      {"src_h_chr_pos", -513}, {"src_v_chr_pos", chroma_row}, {"dst_h_chr_pos", -513},
      {"dst_v_chr_pos", -513}, {"src_range", range},          {"dst_range", range},
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

// The numbers from which libswscale makes its tables.
SwscaleColours make_colours(const int* matrix, bool is_full_range) noexcept {
  constexpr std::int64_t kOne = 1 << 16;
  const std::int64_t luma = is_full_range ? kOne : kOne * 255 / 219;
  const std::int64_t black = is_full_range ? 0 : 16 * kOne;
  const std::int64_t zero = is_full_range ? 384 : 326;  // where luma begins in the table
  // A number as a multiple of 2^16 and a signed rest.
  const auto whole = [](std::int64_t number) { return static_cast<std::int16_t>((number + kOne / 2) >> 16); };
  const auto rest = [&](std::int64_t number) { return static_cast<std::int16_t>(number - whole(number) * kOne); };
  // What a step of chroma is in steps of luma.
  const auto chroma = [&](std::int64_t coefficient) {
    const std::int64_t scaled = is_full_range ? coefficient * 224 / 255 : coefficient;
    const std::int64_t step = (scaled * kOne + kOne / 2) / luma;
    return SwscaleColours::Chroma{static_cast<std::int16_t>(-(step >> 9)), whole(step), rest(step)};
  };
  const std::int64_t first = zero * luma - 384 * kOne - black + kOne / 2;
  return {chroma(matrix[0]),
          chroma(-matrix[2]),
          chroma(-matrix[3]),
          chroma(matrix[1]),
          static_cast<std::int16_t>(luma - kOne),
          rest(first),
          whole(first)};
}

// One row. Kernels read and write whole blocks, so the end of a row is converted apart.
void to_rgb(const Kernels& kernels, const SwscaleColours& colours, const std::uint8_t* y, const std::uint8_t* u,
            const std::uint8_t* v, std::uint8_t* out, int width) {
  constexpr int kMost = 8 * kBlock;
  std::uint8_t r[kMost];
  std::uint8_t g[kMost];
  std::uint8_t b[kMost];
  const int blocks = width / kBlock * kBlock;
  for (int x = 0; x < blocks; x += kMost) {
    const int count = std::min(kMost, blocks - x);
    kernels.swscale_to_rgb(colours, y + x, u + x / 2, v + x / 2, r, g, b, count);
    kernels.interleave(r, g, b, out + std::ptrdiff_t{3} * x, count);
  }
  const auto left = static_cast<std::size_t>(width - blocks);
  if (left != 0) {
    std::uint8_t ends[3][kBlock] = {};
    std::uint8_t pixels[3 * kBlock];
    std::memcpy(ends[0], y + blocks, left);
    std::memcpy(ends[1], u + blocks / 2, left / 2);
    std::memcpy(ends[2], v + blocks / 2, left / 2);
    kernels.swscale_to_rgb(colours, ends[0], ends[1], ends[2], r, g, b, kBlock);
    kernels.interleave(r, g, b, pixels, kBlock);
    std::memcpy(out + std::ptrdiff_t{3} * blocks, pixels, 3 * left);
  }
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
  scaler.keeps_size_ = keeps_size;
  if (keeps_size) {
    const Plane from{task.width / 2, half_up(task.height), AV_PIX_FMT_GRAY8};
    scaler.context_ = make_context(whole, from, {from.width, task.height, AV_PIX_FMT_GRAY8});
  } else {
    scaler.context_ = make_context(whole, {task.source_width, task.source_height, task.source_format},
                                   {task.width, task.height, AV_PIX_FMT_YUV422P});
  }
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
  scaler.colours_ = make_colours(task.matrix, task.is_full_range);
  return scaler;
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

// Of a picture that keeps its size, chroma; else all three.
bool RgbScaler::fill_planes(const AVFrame& frame) {
  if (!keeps_size_) {
    return sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, planes_->data,
                     planes_->linesize) >= 0;
  }
  for (const int plane : {1, 2}) {
    if (sws_scale(context_.get(), frame.data + plane, frame.linesize + plane, 0, half_up(frame.height),
                  planes_->data + plane, planes_->linesize + plane) < 0) {
      return false;
    }
  }
  return true;
}

bool RgbScaler::scale(const AVFrame& frame, std::uint8_t* out, std::ptrdiff_t stride) {
  if (!fill_planes(frame) || (may_overshoot_ && reaches_limits())) {
    return false;
  }
  const auto row_of = [](const AVFrame& from, int plane, int y) {
    return from.data[plane] + static_cast<std::ptrdiff_t>(y) * from.linesize[plane];
  };
  const Kernels& kernels = best_kernels();
  const AVFrame& of_luma = keeps_size_ ? frame : *planes_;
  for (int y = 0; y < planes_->height; ++y) {
    to_rgb(kernels, colours_, row_of(of_luma, 0, y), row_of(*planes_, 1, y), row_of(*planes_, 2, y), out + y * stride,
           planes_->width);
  }
  return true;
}

}  // namespace spdl
