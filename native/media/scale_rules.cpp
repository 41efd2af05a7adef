#include "media/scale_rules.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/splitmix.h"
#include "media/chain_filter.h"

namespace spdl {
namespace {

// libavfilter's convention: chroma of 4:2:0 lies as in MPEG-2, halfway between two lines. (-513: not told.)
constexpr int kChromaUntold = -513;
constexpr int kChromaOfMpeg2 = 128;

// The picture that is tried, and its size where it is changed: multiples of all that formats and vectors want.
constexpr int kWidth = 64, kHeight = 32;
constexpr int kOtherWidth = 48, kOtherHeight = 24;

struct Options {
  int source_horizontal = kChromaUntold, source_vertical = kChromaUntold;
  int target_horizontal = kChromaUntold, target_vertical = kChromaUntold;
  int source_range = -1, target_range = -1;  // -1: not told
};

Options options_of_one_matrix(const ScaleCase& wanted) {
  Options options;
  options.source_vertical = wanted.format == AV_PIX_FMT_YUV420P ? kChromaOfMpeg2 : kChromaUntold;
  options.target_vertical = wanted.to_format == AV_PIX_FMT_YUV420P ? kChromaOfMpeg2 : kChromaUntold;
  options.source_range = wanted.range == AVCOL_RANGE_JPEG ? 1 : 0;
  return options;
}

// Chroma lies in the middle wherever it has fewer samples.
int middle_of_chroma(int log2_of_step) { return log2_of_step > 0 ? 128 * ((1 << log2_of_step) - 1) : kChromaUntold; }

int told_range(int range) { return range == AVCOL_RANGE_UNSPECIFIED ? -1 : range == AVCOL_RANGE_JPEG ? 1 : 0; }

// libavfilter/vf_scale.c of FFmpeg 7.1, config_props and calc_chroma_pos.
Options options_of_two_matrices(const ScaleCase& wanted, const ScaleFacts& facts) {
  const AVPixFmtDescriptor& source = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(wanted.format));
  const AVPixFmtDescriptor& target = *av_pix_fmt_desc_get(wanted.to_format);
  Options options;
  options.source_horizontal = middle_of_chroma(source.log2_chroma_w);
  options.source_vertical = middle_of_chroma(source.log2_chroma_h);
  options.target_horizontal = middle_of_chroma(target.log2_chroma_w);
  options.target_vertical = middle_of_chroma(target.log2_chroma_h);
  options.source_range = told_range(wanted.range);
  options.target_range = told_range(facts.range);
  return options;
}

// The random bits that the byte at an index of a row may have: none beyond the depth of a number of two bytes, and of a
// floating-point number those that make it finite and about 1.
struct Noise {
  int even, odd;  // how many values
  int first;      // the least
};

Noise noise_of(const AVPixFmtDescriptor& format) {
  if ((format.flags & AV_PIX_FMT_FLAG_FLOAT) != 0) {
    return {4, 4, 0x3c};
  }
  const AVComponentDescriptor& number = format.comp[0];
  if (number.step != 2 || number.depth <= 8 || number.shift != 0) {
    return {256, 256, 0};
  }
  const int high = 1 << (number.depth - 8);
  return (format.flags & AV_PIX_FMT_FLAG_BE) != 0 ? Noise{high, 256, 0} : Noise{256, high, 0};
}

av::FramePtr make_noise(const ScaleCase& wanted) {
  const auto format = static_cast<AVPixelFormat>(wanted.format);
  const Noise noise = noise_of(*av_pix_fmt_desc_get(format));
  av::FramePtr frame = av::new_frame();
  frame->width = wanted.width;
  frame->height = wanted.height;
  frame->format = wanted.format;
  frame->color_range = static_cast<AVColorRange>(wanted.range);
  frame->colorspace = static_cast<AVColorSpace>(wanted.matrix);
  if (av_frame_get_buffer(frame.get(), 0) < 0) {
    throw std::bad_alloc();
  }
  SplitMix64 random(0);
  for (int plane = 0; plane < AV_NUM_DATA_POINTERS && frame->buf[plane] != nullptr; ++plane) {
    const AVBufferRef& bytes = *frame->buf[plane];
    for (std::size_t i = 0; i < bytes.size; ++i) {
      bytes.data[i] = static_cast<std::uint8_t>(noise.first + random.below(i % 2 == 0 ? noise.even : noise.odd));
    }
  }
  return frame;
}

bool same_pictures(const AVFrame& one, const AVFrame& other) {
  if (one.format != other.format || one.width != other.width || one.height != other.height) {
    return false;
  }
  const auto format = static_cast<AVPixelFormat>(one.format);
  const AVPixFmtDescriptor& descriptor = *av_pix_fmt_desc_get(format);
  for (int plane = 0; plane < av_pix_fmt_count_planes(format); ++plane) {
    const bool is_chroma = plane == 1 || plane == 2;
    const int num_rows = is_chroma ? AV_CEIL_RSHIFT(one.height, descriptor.log2_chroma_h) : one.height;
    const auto row_bytes = static_cast<std::size_t>(av_image_get_linesize(format, one.width, plane));
    for (std::ptrdiff_t y = 0; y < num_rows; ++y) {
      if (std::memcmp(one.data[plane] + y * one.linesize[plane], other.data[plane] + y * other.linesize[plane],
                      row_bytes) != 0) {
        return false;
      }
    }
  }
  return true;
}

std::string filter_of(const ScaleCase& wanted) {
  std::string text;
  if (!wanted.flags.empty() || wanted.to_width != wanted.width || wanted.to_height != wanted.height) {
    text = "scale=w=" + std::to_string(wanted.to_width) + ":h=" + std::to_string(wanted.to_height);
    text += (wanted.flags.empty() ? "" : ":flags=" + wanted.flags) + ",";
  }
  return text + "format=pix_fmts=" + av_get_pix_fmt_name(wanted.to_format);
}

// Scales as the rules say.
bool gives(const ScaleCase& wanted, const ScaleFacts& facts, const AVFrame& noise, const AVFrame& expected) {
  const ScaleContext scale = make_scale_context(wanted, facts);
  if (scale.context == nullptr) {
    return false;
  }
  av::FramePtr found = av::new_frame();
  found->width = wanted.to_width;
  found->height = wanted.to_height;
  found->format = wanted.to_format;
  if (av_frame_get_buffer(found.get(), 0) < 0) {
    throw std::bad_alloc();
  }
  return sws_scale(scale.context.get(), noise.data, noise.linesize, 0, noise.height, found->data, found->linesize) >= 0 &&
         same_pictures(*found, expected);
}

ScaleFacts try_rules(const ScaleCase& wanted) {
  const av::FramePtr noise = make_noise(wanted);
  std::vector<av::FramePtr> expected;
  try {
    ChainInput input;
    input.time_base = {1, 25};
    ChainFilter filter(input, filter_of(wanted), "");
    filter.filter(av::clone(*noise), expected);
  } catch (const Error&) {
    return {};
  }
  if (expected.size() != 1) {
    return {};
  }
  ScaleFacts facts{ScaleRules::kUnknown, expected[0]->color_range, expected[0]->colorspace};
  for (const ScaleRules rules : {ScaleRules::kOneMatrix, ScaleRules::kTwoMatrices}) {
    facts.rules = rules;
    if (gives(wanted, facts, *noise, *expected[0])) {
      return facts;
    }
  }
  return {};
}

// What was found out, never forgotten: a list that only grows, so that reading it takes no lock and a child of a fork
// finds it whole.
struct Known {
  ScaleCase wanted;
  ScaleFacts facts;
  const Known* next = nullptr;
};
std::atomic<const Known*> known{nullptr};

}  // namespace

ScaleContext make_scale_context(const ScaleCase& wanted, const ScaleFacts& facts) {
  const bool has_two = facts.rules == ScaleRules::kTwoMatrices;
  const Options options = has_two ? options_of_two_matrices(wanted, facts) : options_of_one_matrix(wanted);
  auto context = av::own<av::ScalerPtr>(sws_alloc_context());
  const std::pair<const char*, int> numbers[] = {
      {"srcw", wanted.width},
      {"srch", wanted.height},
      {"src_format", wanted.format},
      {"dstw", wanted.to_width},
      {"dsth", wanted.to_height},
      {"dst_format", wanted.to_format},
      {"src_h_chr_pos", options.source_horizontal},
      {"src_v_chr_pos", options.source_vertical},
      {"dst_h_chr_pos", options.target_horizontal},
      {"dst_v_chr_pos", options.target_vertical},
      {"src_range", options.source_range},
      {"dst_range", options.target_range},
  };
  for (const auto& [name, value] : numbers) {
    if (value != -1 && av_opt_set_int(context.get(), name, value, 0) < 0) {
      return {};
    }
  }
  if (!wanted.flags.empty() && av_opt_set(context.get(), "sws_flags", wanted.flags.c_str(), 0) < 0) {
    return {};
  }
  if (sws_init_context(context.get(), nullptr, nullptr) < 0) {
    return {};
  }
  int* source_matrix = nullptr;
  int* target_matrix = nullptr;
  int source_range = 0, target_range = 0, brightness = 0, contrast = 0, saturation = 0;
  sws_getColorspaceDetails(context.get(), &source_matrix, &source_range, &target_matrix, &target_range, &brightness,
                           &contrast, &saturation);
  if (!has_two && wanted.range != AVCOL_RANGE_UNSPECIFIED) {
    source_range = wanted.range == AVCOL_RANGE_JPEG ? 1 : 0;
  }
  const int* matrix = sws_getCoefficients(wanted.matrix);
  // With one, a change of format alone keeps the colours.
  const int* of_target = has_two && facts.matrix != AVCOL_SPC_UNSPECIFIED ? sws_getCoefficients(facts.matrix) : matrix;
  // It refuses where there is nothing to tell, such as from RGB to RGB.
  sws_setColorspaceDetails(context.get(), matrix, source_range, of_target, target_range, brightness, contrast, saturation);
  return {std::move(context), source_range != 0, matrix};
}

ScaleFacts find_scale_facts(const ScaleCase& wanted) {
  ScaleCase kind = wanted;
  kind.width = kWidth;
  kind.height = kHeight;
  kind.to_width = wanted.to_width == wanted.width ? kWidth : kOtherWidth;
  kind.to_height = wanted.to_height == wanted.height ? kHeight : kOtherHeight;
  for (const Known* each = known.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    if (each->wanted == kind) {
      return each->facts;
    }
  }
  auto found = std::make_unique<Known>(Known{kind, try_rules(kind)});
  const ScaleFacts facts = found->facts;
  found->next = known.load(std::memory_order_relaxed);
  while (!known.compare_exchange_weak(found->next, found.get(), std::memory_order_release, std::memory_order_relaxed)) {
  }
  found.release();  // NOLINT: the list has it
  return facts;
}

}  // namespace spdl
