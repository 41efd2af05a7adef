#include "media/heif_decoder.h"

#include "base/error.h"

#ifdef SPDL_LIBHEIF

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <dlfcn.h>
#include <libheif/heif.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "image/batch.h"
#include "image/heif.h"
#include "media/still_memory.h"

namespace spdl {
namespace {

template <auto Free>
struct Release {
  template <class T>
  void operator()(T* owned) const noexcept {
    Free(owned);
  }
};
using ContextPtr = std::unique_ptr<heif_context, Release<&heif_context_free>>;
using HandlePtr = std::unique_ptr<heif_image_handle, Release<&heif_image_handle_release>>;
using ImagePtr = std::unique_ptr<heif_image, Release<&heif_image_release>>;
using OptionsPtr = std::unique_ptr<heif_decoding_options, Release<&heif_decoding_options_free>>;
using NclxPtr = std::unique_ptr<heif_color_profile_nclx, Release<&heif_nclx_color_profile_free>>;

[[noreturn]] void fail(const heif_error& error) {
  std::string text = error.message != nullptr ? error.message : "";
  text = text.empty() ? "error " + std::to_string(error.code) + "." + std::to_string(error.subcode) : text;
  const bool is_unsupported =
      error.code == heif_error_Unsupported_filetype || error.code == heif_error_Unsupported_feature;
  throw Error(ErrorKind::kDecode, "decode",
              is_unsupported ? "it is a HEIF that libheif " + libheif_version() + " does not decode: " + text
                             : "libheif: " + text);
}

void check(const heif_error& error) {
  if (error.code != heif_error_Ok) {
    fail(error);
  }
}

// A file that is open, and its primary picture.
struct Opened {
  ContextPtr context;
  HandlePtr handle;
};

// `data` is used as long as the result.
Opened open(Bytes data) {
  Opened opened{ContextPtr(heif_context_alloc()), nullptr};
  if (opened.context == nullptr) {
    throw std::bad_alloc();
  }
  heif_context_set_max_decoding_threads(opened.context.get(), 0);  // the caller has threads of its own
  check(heif_context_read_from_memory_without_copy(opened.context.get(), data.data(), data.size(), nullptr));
  heif_image_handle* handle = nullptr;
  check(heif_context_get_primary_image_handle(opened.context.get(), &handle));
  opened.handle.reset(handle);
  return opened;
}

// `is_bare`: as it is coded, before it is turned, mirrored and cropped.
heif_error decode(const heif_image_handle& handle, heif_colorspace colours, heif_chroma chroma, bool is_bare, ImagePtr& into) {
  const OptionsPtr options(heif_decoding_options_alloc());
  if (options == nullptr) {
    throw std::bad_alloc();
  }
  options->strict_decoding = 1;
  options->ignore_transformations = is_bare ? 1 : 0;
  heif_image* image = nullptr;
  const heif_error error = heif_decode_image(&handle, &image, colours, chroma, options.get());
  into.reset(image);
  return error;
}

// Gray stays gray, and all else becomes RGB. From 1.17 on, libheif gives YCbCr where it is not asked for anything.
heif_error decode(const heif_image_handle& handle, bool is_bare, ImagePtr& into) {
  heif_colorspace colours = heif_colorspace_undefined;
  heif_chroma chroma = heif_chroma_undefined;
#if LIBHEIF_NUMERIC_VERSION >= 0x01110000
  const heif_error error = heif_image_handle_get_preferred_decoding_colorspace(&handle, &colours, &chroma);
  if (error.code != heif_error_Ok) {
    return error;
  }
  if (colours != heif_colorspace_monochrome) {
    colours = heif_colorspace_RGB;
    chroma = heif_chroma_444;
  }
#endif
  const heif_error decoded = decode(handle, colours, chroma, is_bare, into);
  if (decoded.code == heif_error_Ok && heif_image_get_colorspace(into.get()) == heif_colorspace_YCbCr) {
    return decode(handle, heif_colorspace_RGB, heif_chroma_444, is_bare, into);
  }
  return decoded;
}

// One component as libheif holds it: samples of one byte, or of two in the processor's order.
struct Plane {
  const std::uint8_t* data = nullptr;
  int stride = 0;
  int width = 0;
  int height = 0;
  int bits = 0;

  unsigned at(int x, int y) const noexcept {
    const std::uint8_t* row = data + std::ptrdiff_t{y} * stride;
    if (bits <= 8) {
      return row[x];
    }
    std::uint16_t sample = 0;
    std::memcpy(&sample, row + 2 * std::ptrdiff_t{x}, sizeof(sample));
    return sample;
  }
};

std::optional<Plane> plane_of(const heif_image& image, heif_channel channel) {
  if (heif_image_has_channel(&image, channel) == 0) {
    return std::nullopt;
  }
  Plane plane;
  plane.data = heif_image_get_plane_readonly(&image, channel, &plane.stride);
  plane.width = heif_image_get_width(&image, channel);
  plane.height = heif_image_get_height(&image, channel);
  plane.bits = heif_image_get_bits_per_pixel_range(&image, channel);
  if (plane.data == nullptr || plane.width < 1 || plane.height < 1 || plane.bits < 1 || plane.bits > 16) {
    return std::nullopt;
  }
  return plane;
}

struct Format {
  int bits;
  AVPixelFormat gray;
  AVPixelFormat rgb;
  AVPixelFormat rgb_with_alpha;
};

const Format& format_of(int bits) noexcept {
  static constexpr std::array kFormats = {
      Format{8, AV_PIX_FMT_GRAY8, AV_PIX_FMT_GBRP, AV_PIX_FMT_GBRAP},
      Format{10, AV_PIX_FMT_GRAY10, AV_PIX_FMT_GBRP10, AV_PIX_FMT_GBRAP10},
      Format{12, AV_PIX_FMT_GRAY12, AV_PIX_FMT_GBRP12, AV_PIX_FMT_GBRAP12},
      Format{16, AV_PIX_FMT_GRAY16, AV_PIX_FMT_GBRP16, AV_PIX_FMT_GBRAP16},
  };
  return *std::find_if(kFormats.begin(), kFormats.end() - 1, [&](const Format& format) { return format.bits == bits; });
}

// What is black and what is white in samples (ITU-T H.273, 8.3).
struct Range {
  unsigned black;
  unsigned white;
};

Range range_of(int bits, bool is_limited) noexcept {
  return is_limited && bits >= 8 ? Range{16U << (bits - 8), 235U << (bits - 8)} : Range{0, (1U << bits) - 1};
}

// Copies a component, and stretches its range to all levels of `bits`. A smaller one is enlarged to the frame's size: the
// alpha of a picture may have a size of its own.
void copy(const Plane& from, AVFrame& frame, std::size_t plane, int bits, bool is_limited = false) {
  const bool is_same =
      !is_limited && from.bits == bits && from.width == frame.width && from.height == frame.height;
  const Range range = range_of(from.bits, is_limited);
  const unsigned levels = range.white - range.black;
  const unsigned most = (1U << bits) - 1;
  const auto row_bytes = static_cast<std::size_t>(frame.width) * (bits > 8 ? 2 : 1);
  for (int y = 0; y < frame.height; ++y) {
    std::uint8_t* row = frame.data[plane] + std::ptrdiff_t{y} * frame.linesize[plane];
    if (is_same) {
      std::memcpy(row, from.data + std::ptrdiff_t{y} * from.stride, row_bytes);
      continue;
    }
    const auto source_y = static_cast<int>(std::int64_t{y} * from.height / frame.height);
    for (int x = 0; x < frame.width; ++x) {
      const unsigned value = from.at(static_cast<int>(std::int64_t{x} * from.width / frame.width), source_y);
      const unsigned above = std::clamp(value, range.black, range.white) - range.black;
      const unsigned scaled = (above * most + levels / 2) / levels;
      if (bits <= 8) {
        row[x] = static_cast<std::uint8_t>(scaled);
      } else {
        const auto sample = static_cast<std::uint16_t>(scaled);
        std::memcpy(row + 2 * std::ptrdiff_t{x}, &sample, sizeof(sample));
      }
    }
  }
}

// Whether gray has the levels of BT.601; libheif changes those of colours alone.
bool is_limited(const heif_image& image) {
  heif_color_profile_nclx* nclx = nullptr;
  const heif_error error = heif_image_get_nclx_color_profile(&image, &nclx);
  const NclxPtr owned(nclx);
  return error.code == heif_error_Ok && nclx != nullptr && nclx->full_range_flag == 0;
}

av::FramePtr frame_of(const heif_image& image) {
  const auto gray = plane_of(image, heif_channel_Y);
  const std::array colours = {plane_of(image, heif_channel_G), plane_of(image, heif_channel_B),
                              plane_of(image, heif_channel_R)};
  const auto alpha = plane_of(image, heif_channel_Alpha);
  const std::optional<Plane>& first = gray ? gray : colours[0];
  if (!first || (!gray && (!colours[1] || !colours[2]))) {
    throw Error(ErrorKind::kDecode, "decode", "libheif returned a picture that is neither gray nor RGB");
  }
  const Format& format = format_of(first->bits);
  av::FramePtr frame = av::new_frame();
  frame->width = first->width;
  frame->height = first->height;
  frame->format = alpha ? format.rgb_with_alpha : gray ? format.gray : format.rgb;
  frame->color_range = AVCOL_RANGE_JPEG;
  allocate_pixels(*frame);
  if (gray) {
    const bool limited = is_limited(image);
    for (std::size_t i = 0; i < (alpha ? 3U : 1U); ++i) {
      copy(*gray, *frame, i, format.bits, limited);
    }
  } else {
    for (std::size_t i = 0; i < colours.size(); ++i) {
      copy(*colours[i], *frame, i, format.bits);
    }
  }
  if (alpha) {
    copy(*alpha, *frame, 3, format.bits);
  }
  if (!gray || alpha) {
    frame->colorspace = AVCOL_SPC_RGB;
  }
  return frame;
}

// A new picture whose pixel (x, y) is pixel `from(x, y)` of this one.
template <class Sample, class From>
av::FramePtr moved(const AVFrame& frame, int width, int height, const From& from) {
  av::FramePtr to = av::new_frame();
  to->color_range = frame.color_range;
  to->colorspace = frame.colorspace;
  to->format = frame.format;
  to->width = width;
  to->height = height;
  allocate_pixels(*to);
  for (std::size_t plane = 0; plane < 4 && frame.data[plane] != nullptr; ++plane) {
    for (int y = 0; y < height; ++y) {
      auto* row = reinterpret_cast<Sample*>(to->data[plane] + std::ptrdiff_t{y} * to->linesize[plane]);
      for (int x = 0; x < width; ++x) {
        const auto [source_x, source_y] = from(x, y);
        const std::uint8_t* source = frame.data[plane] + std::ptrdiff_t{source_y} * frame.linesize[plane];
        row[x] = reinterpret_cast<const Sample*>(source)[source_x];
      }
    }
  }
  return to;
}

template <class Sample>
av::FramePtr after(const HeifStep& step, av::FramePtr frame) {
  using Place = std::pair<int, int>;
  const int width = frame->width;
  const int height = frame->height;
  switch (step.kind) {
    case HeifStep::Kind::kCrop: {
      const auto crop = crop_of(step, width, height);
      if (!crop) {  // the picture has another size than its header says
        throw Error(ErrorKind::kDecode, "decode", "the part to show lies outside of the picture");
      }
      return moved<Sample>(*frame, crop->width, crop->height,
                           [&](int x, int y) { return Place{x + crop->left, y + crop->top}; });
    }
    case HeifStep::Kind::kMirror:
      return moved<Sample>(*frame, width, height, [&](int x, int y) {
        return step.value != 0 ? Place{width - 1 - x, y} : Place{x, height - 1 - y};
      });
    case HeifStep::Kind::kTurn:
      break;
  }
  if (step.value == 0) {
    return frame;
  }
  if (step.value == 2) {
    return moved<Sample>(*frame, width, height, [&](int x, int y) { return Place{width - 1 - x, height - 1 - y}; });
  }
  return moved<Sample>(*frame, height, width, [&](int x, int y) {
    return step.value == 1 ? Place{width - 1 - y, x} : Place{y, height - 1 - x};
  });
}

// Whether all that shows a picture of this size can be done here.
bool can_show(const HeifFacts& facts, int width, int height) noexcept {
  if (facts.num_steps > facts.steps.size()) {
    return false;
  }
  for (std::size_t i = 0; i < facts.num_steps; ++i) {
    const HeifStep& step = facts.steps[i];
    if (step.kind == HeifStep::Kind::kTurn && (step.value & 1) != 0) {
      std::swap(width, height);
    } else if (step.kind == HeifStep::Kind::kCrop) {
      const auto crop = crop_of(step, width, height);
      if (!crop) {
        return false;
      }
      width = crop->width;
      height = crop->height;
    }
  }
  return true;
}

// As Pillow's rgbA2rgba does: what is all hidden or all shown stays as it is.
template <class Sample>
void divide_by_alpha(AVFrame& frame, unsigned most) noexcept {
  const auto sample = [&](std::size_t plane, int x, int y) -> Sample& {
    return reinterpret_cast<Sample*>(frame.data[plane] + std::ptrdiff_t{y} * frame.linesize[plane])[x];
  };
  for (int y = 0; y < frame.height; ++y) {
    for (int x = 0; x < frame.width; ++x) {
      const unsigned alpha = sample(3, x, y);
      for (std::size_t i = 0; i < 3 && alpha > 0 && alpha < most; ++i) {
        sample(i, x, y) = static_cast<Sample>(std::min(most * sample(i, x, y) / alpha, most));
      }
    }
  }
}

bool has_bytes(const AVFrame& frame) noexcept {
  return frame.format == AV_PIX_FMT_GRAY8 || frame.format == AV_PIX_FMT_GBRP || frame.format == AV_PIX_FMT_GBRAP;
}

}  // namespace

std::string libheif_version() { return heif_get_version(); }

const char* libheif_path() noexcept {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&heif_get_version), &found) != 0 && found.dli_fname != nullptr
             ? found.dli_fname
             : "";
}

bool libheif_reads_hevc() noexcept { return heif_have_decoder_for_format(heif_compression_HEVC) != 0; }

av::FramePtr decode_heif(Bytes heif, std::int64_t max_pixels) {
  // Others may write to the caller's memory meanwhile, and libheif reads headers more than once.
  Buffer memory;
  std::copy(heif.begin(), heif.end(), memory.reserve(heif.size()));
  const std::span<std::uint8_t> data(memory.data(), heif.size());
  const HeifFacts facts = inspect_heif(data);
  Opened opened = open(data);
  const heif_image_handle& handle = *opened.handle;
  for (const auto& [width, height] :
       {std::pair(heif_image_handle_get_ispe_width(&handle), heif_image_handle_get_ispe_height(&handle)),
        std::pair(heif_image_handle_get_width(&handle), heif_image_handle_get_height(&handle))}) {
    require_pixels(width, height, max_pixels);
  }
  // From 1.17 on, libheif turns and crops the planes as they are coded, so that 4:2:2 loses half of its chroma and odd crops move it.
  constexpr bool kMovesPlanes = LIBHEIF_NUMERIC_VERSION >= 0x01110000;
  const bool is_bare = kMovesPlanes && facts.num_steps > 0 &&
                       can_show(facts, heif_image_handle_get_ispe_width(&handle), heif_image_handle_get_ispe_height(&handle));
  ImagePtr image;
  heif_error error = decode(handle, is_bare, image);
  // Up to 1.16 it does not mirror more than 8 bits.
  const bool mirrors = !kMovesPlanes && error.code == heif_error_Unsupported_feature && facts.is_mirrored_sideways &&
                       heif_image_handle_get_luma_bits_per_pixel(&handle) > 8;
  if (mirrors) {
    hide_mirroring(data);
    opened = open(data);
    error = decode(*opened.handle, false, image);
  }
  if (error.code == heif_error_Unsupported_feature && error.subcode == heif_suberror_Unsupported_codec &&
      !libheif_reads_hevc()) {
    throw Error(ErrorKind::kDecode, "decode",
                "it is HEIC, and libheif " + libheif_version() +
                    " has no decoder for HEVC here: install its plugin (libheif-plugin-libde265 in Debian)");
  }
  check(error);
  const bool is_multiplied = heif_image_is_premultiplied_alpha(image.get()) != 0;
  av::FramePtr frame = frame_of(*image);
  image.reset();
  require_pixels(frame->width, frame->height, max_pixels);
  const auto show = [&](const HeifStep& step) {
    frame = (has_bytes(*frame) ? after<std::uint8_t> : after<std::uint16_t>)(step, std::move(frame));
  };
  if (mirrors) {
    show({HeifStep::Kind::kMirror, *facts.is_mirrored_sideways ? 1 : 0, {}});
  }
  for (std::size_t i = 0; is_bare && i < facts.num_steps; ++i) {
    show(facts.steps[i]);
  }
  if (is_multiplied && frame->data[3] != nullptr) {
    const unsigned most = (1U << av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame->format))->comp[0].depth) - 1;
    (has_bytes(*frame) ? divide_by_alpha<std::uint8_t> : divide_by_alpha<std::uint16_t>)(*frame, most);
  }
  return frame;
}

}  // namespace spdl

#else

namespace spdl {

std::string libheif_version() { return {}; }

const char* libheif_path() noexcept { return ""; }

bool libheif_reads_hevc() noexcept { return false; }

av::FramePtr decode_heif(Bytes, std::int64_t) {
  throw Error(ErrorKind::kDecode, "decode",
              "it is HEIF, and this build has no libheif: install libheif with its headers and build again, or use a wheel");
}

}  // namespace spdl

#endif
