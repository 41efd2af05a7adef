#include "media/scaler.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
}

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "av/check.h"

namespace spdl {
namespace {

constexpr const char* kAction = "scale a picture";

// libswscale works on this many pixels at a time. It may round up, and write beyond the end of rows that do not end on
// it; on those that do it never did (16 formats to 7, 55 sizes, 7 algorithms, guarded on both sides).
constexpr int kWidthMultiple = 16;

// Setting up RgbScaler and trying it costs as much as two pictures; it is worth that for more than a few.
constexpr int kTryFrom = 4;
// Pictures that it refuses have cost almost as much as if it had done them.
constexpr int kMostRefused = 16;

// Takes `name=` off the front if it is there.
std::string_view strip(std::string_view text, std::string_view name) {
  return text.starts_with(name) ? text.substr(name.size()) : text;
}

std::optional<int> parse_size(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

// Up to the separator, which is taken off as well.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return head;
}

RgbScaler::Task task_of(const KeptScaler& work) {
  const ScaleCase& wanted = work.wanted;
  return {wanted.width,     wanted.height, wanted.format,           wanted.to_width,
          wanted.to_height, wanted.flags,  work.made.is_full_range, work.made.matrix};
}

// Of RgbScaler for pictures that keep their size, by range and matrix: a still has no second picture to try it with, so what one
// picture has shown must hold for all.
enum class Trust : std::uint8_t { kUntried, kSame, kOther };
std::array<std::array<std::atomic<Trust>, AVCOL_SPC_NB>, 2> trusts;

std::atomic<Trust>* trust_in(const KeptScaler& work) {
  const int matrix = work.wanted.matrix;
  if (work.wanted.to_format != AV_PIX_FMT_RGB24 || matrix < 0 || matrix >= AVCOL_SPC_NB ||
      !RgbScaler::keeps_odd_size(task_of(work))) {
    return nullptr;
  }
  return &trusts[work.made.is_full_range ? 1 : 0][static_cast<std::size_t>(matrix)];
}

bool is_plain(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_+") == std::string_view::npos;
}

}  // namespace

std::optional<ScaleTarget> parse_scale(const std::string& description) {
  ScaleTarget target;
  std::string_view rest = description;
  if (rest.starts_with("scale=")) {
    std::string_view size = cut(rest, ',').substr(6);
    const std::optional<int> width = parse_size(strip(cut(size, ':'), "w="));
    const std::optional<int> height = parse_size(strip(cut(size, ':'), "h="));
    if (!width || !height) {
      return std::nullopt;
    }
    target.width = *width;
    target.height = *height;
    if (!size.empty()) {
      if (!size.starts_with("flags=") || !is_plain(size.substr(6))) {
        return std::nullopt;
      }
      target.flags = size.substr(6);
    }
  }
  if (!rest.starts_with("format=")) {
    return std::nullopt;
  }
  const std::string name(strip(rest.substr(7), "pix_fmts="));
  target.format = is_plain(name) ? av_get_pix_fmt(name.c_str()) : AV_PIX_FMT_NONE;
  return target.format == AV_PIX_FMT_NONE ? std::nullopt : std::optional(target);
}

bool Scaler::takes(const AVFrame& frame) {
  if (has_nothing_to_do(frame)) {
    return true;
  }
  return sws_isSupportedInput(static_cast<AVPixelFormat>(frame.format)) > 0 &&
         sws_isSupportedOutput(target_.format) > 0 && prepare(frame);
}

bool Scaler::has_nothing_to_do(const AVFrame& frame) const noexcept {
  return frame.format == target_.format && frame.width == width_of(frame) && frame.height == height_of(frame);
}

bool Scaler::prepare(const AVFrame& frame) {
  ScaleCase wanted{frame.width,     frame.height,     frame.format,   frame.color_range, frame.colorspace,
                   width_of(frame), height_of(frame), target_.format, target_.flags};
  if (work_ == nullptr || work_->wanted != wanted) {
    num_refused_ = 0;
    work_.reset();  // so that it can be taken
    work_ = take_scaler(wanted);
  }
  return work_ != nullptr;
}

void Scaler::run(const AVFrame& frame, std::uint8_t* const planes[], const int strides[]) {
  KeptScaler& work = *work_;
  work.is_sound = false;  // unless all goes well
  std::atomic<Trust>* trust = trust_in(work);
  if (trust != nullptr && !work.rgb && trust->load(std::memory_order_relaxed) == Trust::kSame) {
    work.rgb = RgbScaler::make(task_of(work));
  }
  if (work.rgb && num_refused_ < kMostRefused) {
    if (work.rgb->scale(frame, planes[0], strides[0])) {
      work.is_sound = true;
      return;
    }
    ++num_refused_;
  }
  av::check(sws_scale(work.made.context.get(), frame.data, frame.linesize, 0, frame.height, planes, strides),
            ErrorKind::kFilter, kAction);
  ++work.num_scaled;
  if (trust != nullptr) {
    try_rgb_once(frame, planes[0], strides[0]);
  } else if (!work.rgb && !work.is_rgb_refuted && work.num_scaled >= kTryFrom &&
             std::has_single_bit(static_cast<unsigned>(work.num_scaled))) {
    try_rgb(frame, planes[0], strides[0]);
  }
  work.is_sound = true;
}

// From now on RgbScaler does it, if it gives the same for this picture.
void Scaler::try_rgb(const AVFrame& frame, const std::uint8_t* expected, std::ptrdiff_t stride) {
  const ScaleCase& wanted = work_->wanted;
  if (wanted.to_format != AV_PIX_FMT_RGB24) {
    return;
  }
  std::optional<RgbScaler> rgb = RgbScaler::make(task_of(*work_));
  if (!rgb) {
    return;
  }
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{3} * wanted.to_width;
  std::vector<std::uint8_t> given(static_cast<std::size_t>(row_bytes * wanted.to_height));
  if (!rgb->scale(frame, given.data(), row_bytes)) {
    return;
  }
  for (int y = 0; y < wanted.to_height; ++y) {
    if (std::memcmp(given.data() + y * row_bytes, expected + y * stride, static_cast<std::size_t>(row_bytes)) != 0) {
      work_->is_rgb_refuted = true;
      return;
    }
  }
  work_->rgb = std::move(rgb);
}

void Scaler::try_rgb_once(const AVFrame& frame, const std::uint8_t* expected, std::ptrdiff_t stride) {
  constexpr std::int64_t kEnough = 16384;  // pixels that may show a difference
  std::atomic<Trust>& trust = *trust_in(*work_);
  if (trust.load(std::memory_order_relaxed) != Trust::kUntried || std::int64_t{frame.width} * frame.height < kEnough) {
    return;
  }
  try_rgb(frame, expected, stride);
  if (work_->rgb || work_->is_rgb_refuted) {  // else this picture overshoots, which says nothing
    trust.store(work_->rgb ? Trust::kSame : Trust::kOther, std::memory_order_relaxed);
  }
}

av::FramePtr Scaler::scale(av::FramePtr frame) {
  if (has_nothing_to_do(*frame)) {
    return frame;
  }
  av::check(prepare(*frame) ? 0 : AVERROR(EINVAL), ErrorKind::kFilter, kAction);
  av::FramePtr out = av::new_frame();
  av::check(av_frame_copy_props(out.get(), frame.get()), ErrorKind::kFilter, kAction);
  out->width = width_of(*frame);
  out->height = height_of(*frame);
  out->format = target_.format;
  out->color_range = work_->facts.range;
  out->colorspace = work_->facts.matrix;
  av_reduce(&out->sample_aspect_ratio.num, &out->sample_aspect_ratio.den,
            static_cast<std::int64_t>(frame->sample_aspect_ratio.num) * out->height * frame->width,
            static_cast<std::int64_t>(frame->sample_aspect_ratio.den) * out->width * frame->height, INT_MAX);
  av::check(av_frame_get_buffer(out.get(), 0), ErrorKind::kFilter, kAction);
  run(*frame, out->data, out->linesize);
  return out;
}

void Scaler::scale_into(const AVFrame& frame, std::uint8_t* out, std::ptrdiff_t stride) {
  const int width = width_of(frame);
  const int height = height_of(frame);
  const int row_bytes = av_image_get_linesize(target_.format, width, 0);
  const auto copy_rows = [&](const AVFrame& from) {
    for (int y = 0; y < height; ++y) {
      std::memcpy(out + y * stride, from.data[0] + static_cast<std::ptrdiff_t>(y) * from.linesize[0],
                  static_cast<std::size_t>(row_bytes));
    }
  };
  if (has_nothing_to_do(frame)) {
    copy_rows(frame);
    return;
  }
  av::check(prepare(frame) ? 0 : AVERROR(EINVAL), ErrorKind::kFilter, kAction);
  if (width % kWidthMultiple == 0) {
    std::uint8_t* const planes[] = {out, nullptr, nullptr, nullptr};
    const int strides[] = {static_cast<int>(stride), 0, 0, 0};
    run(frame, planes, strides);
    return;
  }
  if (scratch_ == nullptr || scratch_->width != width || scratch_->height != height) {
    scratch_ = av::new_frame();
    scratch_->width = width;
    scratch_->height = height;
    scratch_->format = target_.format;
    av::check(av_frame_get_buffer(scratch_.get(), 0), ErrorKind::kFilter, kAction);
  }
  run(frame, scratch_->data, scratch_->linesize);
  copy_rows(*scratch_);
}

}  // namespace spdl
