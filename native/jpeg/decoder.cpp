#include "jpeg/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include <dlfcn.h>

#include "base/error.h"
#include "base/sniff.h"
#include "image/exif.h"
#include "image/jpeg_facts.h"
#include "jpeg/session.h"

#if JPEG_LIB_VERSION >= 70
#define SPDL_DCT_WIDTH(component) ((component).DCT_h_scaled_size)
#define SPDL_DCT_HEIGHT(component) ((component).DCT_v_scaled_size)
#define SPDL_MIN_DCT_HEIGHT(info) ((info).min_DCT_v_scaled_size)
#else
#define SPDL_DCT_WIDTH(component) ((component).DCT_scaled_size)
#define SPDL_DCT_HEIGHT(component) ((component).DCT_scaled_size)
#define SPDL_MIN_DCT_HEIGHT(info) ((info).min_DCT_scaled_size)
#endif
#define SPDL_TEXT_OF(value) #value
#define SPDL_TEXT(value) SPDL_TEXT_OF(value)

namespace spdl {
namespace {

// By how much the inverse transform is to scale down, where `shrinking` pixels become one: 1, 2, 4 or 8; other factors
// have no fast transform. What it leaves must be some times the target: its own filter is a poor one, and shows where
// little is resampled after it. Against the exact way (bilinear and bicubic): at a half, with 1.5 times the target the
// worst of 200 photographs has 40 dB, with 1.25 times 37, with 1.1 times 34. Photographs of many megapixels, which is
// where the others are chosen, are smoother: with 1.4 times the target the worst of 12 has 43 dB, and evaluating them
// (4000x3000 to 256) takes 37 ms where it took 48.
unsigned int reduction(double shrinking) noexcept {
  struct Choice {
    unsigned int factor;
    double margin;
  };
  for (const auto [factor, margin] : {Choice{8, 1.4}, Choice{4, 1.4}, Choice{2, 1.5}}) {
    if (shrinking >= factor * margin) {
      return factor;
    }
  }
  return 1;
}

ColorModel model_of(const jpeg_decompress_struct& info) {
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
      return ColorModel::kGray;
    case JCS_YCbCr:
      return ColorModel::kYCbCr;
    case JCS_RGB:
      return ColorModel::kRgb;
    case JCS_CMYK:
      return ColorModel::kCmyk;
    case JCS_YCCK:
      return ColorModel::kYcck;
    default:
      throw Error(ErrorKind::kDecode, "decode",
                  "it has " + std::to_string(info.num_components) + " components, whose meaning is not defined");
  }
}

}  // namespace

JpegDecoder::JpegDecoder(const Kernels& kernels) : kernels_(kernels), session_(std::make_unique<JpegSession>()) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;

JpegHeader JpegDecoder::open(std::span<const std::uint8_t> data, bool want_orientation, std::int64_t max_pixels) {
  if (data.empty()) {
    throw Error(ErrorKind::kOpen, "open", "it is empty");
  }
  if (sniff_format(data) != "JPEG") {
    throw Error(ErrorKind::kOpen, "open", "it is not a JPEG");
  }
  // Version 3 of the library opens these too, and has functions of their own for their pixels.
  const JpegFacts facts = inspect_jpeg(data);
  if (is_lossless(facts)) {
    throw UnsupportedJpeg(is_jpeg_ls(facts) ? "it is JPEG-LS" : "it is lossless");
  }
  if (is_deep(facts)) {
    throw Error(ErrorKind::kDecode, "decode",
                "its samples have " + std::to_string(facts.precision) + " bits, and JPEG is decoded with 8 only");
  }
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  data_ = data;
  height_at_ = facts.height_at;
  session.create(data);
  session.guard([&] {
    if (want_orientation) {
      jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
    }
    jpeg_read_header(&info, TRUE);
  });
  require_pixels(info.image_width, info.image_height, max_pixels);
  JpegHeader header;
  header.width = static_cast<int>(info.image_width);
  header.height = static_cast<int>(info.image_height);
  JpegOrientation orientation;
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    if (marker->marker == JPEG_APP0 + 1) {
      orientation.add({marker->data, marker->data_length});
    }
  }
  header.orientation = orientation.shown();
  return header;
}

std::size_t JpegDecoder::memory_needed(const Rect& region, double shrinking) const noexcept {
  jpeg_decompress_struct& info = session_->info;
  const auto num_components = static_cast<std::size_t>(info.num_components);
  std::size_t num_bytes = 0;
  if (jpeg_has_multiple_scans(&info)) {
    for (std::size_t i = 0; i < num_components; ++i) {
      const jpeg_component_info& component = info.comp_info[i];
      num_bytes += std::size_t{component.width_in_blocks} * component.height_in_blocks * sizeof(JBLOCK);
    }
  }
  const std::size_t factor = reduction(shrinking);
  return num_bytes + num_components * padded(static_cast<int>(info.image_width / factor)) *
                         (static_cast<std::size_t>(region.height) / factor + DCTSIZE);
}

Picture JpegDecoder::decode(const Rect& region, double shrinking, bool luma_only) {
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  Picture picture;
  picture.model = model_of(info);
  picture.num_components = info.num_components;
  const int above = jump_to(region.top, region.bottom());
  const bool leave_chroma = luma_only && picture.model == ColorModel::kYCbCr;
  session.guard([&] {
    info.raw_data_out = TRUE;
    info.out_color_space = info.jpeg_color_space;
    info.scale_num = 1;
    info.scale_denom = reduction(shrinking);
    for (int i = 1; leave_chroma && i < info.num_components; ++i) {
      info.comp_info[i].component_needed = FALSE;
    }
    jpeg_start_decompress(&info);
  });
  session.check_scans();
  const UnitRange columns = session.crop_columns(region);
  const UnitRange rows = session.rows_of({region.top - above, region.left, region.height, region.width});
  const std::size_t rows_above = static_cast<std::size_t>(above / (info.max_v_samp_factor * DCTSIZE));
  const auto height = static_cast<double>(info.image_height) + above;
  const bool is_alone = info.num_components == 1;

  // Planes with whole blocks, as libjpeg writes them.
  std::array<std::size_t, 4> rows_per_pass{};
  std::array<std::size_t, 4> strides{};
  std::array<boolean, 4> needed{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(info.num_components); ++i) {
    const jpeg_component_info& from = info.comp_info[i];
    Component& component = picture.components[i];
    const auto block_width = static_cast<std::size_t>(SPDL_DCT_WIDTH(from));
    const auto block_height = static_cast<std::size_t>(SPDL_DCT_HEIGHT(from));
    // Samples of a unit. A single component has units of one block, whatever its sampling factor says.
    const std::size_t across = block_width * static_cast<std::size_t>(is_alone ? 1 : from.h_samp_factor);
    rows_per_pass[i] = static_cast<std::size_t>(from.v_samp_factor) * block_height;
    needed[i] = from.component_needed;
    component.extent_x = static_cast<double>(info.image_width) * from.h_samp_factor * static_cast<double>(block_width) /
                         (info.max_h_samp_factor * DCTSIZE);
    component.extent_y = height * static_cast<double>(rows_per_pass[i]) / (info.max_v_samp_factor * DCTSIZE);
    component.width = static_cast<int>(std::ceil(component.extent_x));
    component.height = static_cast<int>(std::ceil(component.extent_y));
    const int left = static_cast<int>(columns.begin * across);
    const int top = static_cast<int>((rows_above + rows.begin) * rows_per_pass[i]);
    const int bottom = static_cast<int>((rows_above + rows.end) * rows_per_pass[i]);
    component.held = {top, left, std::min(component.height, bottom) - top,
                      std::min(component.width, static_cast<int>(columns.end * across)) - left};
    strides[i] = round_up((columns.end - columns.begin) * across, kRowPadding) + kRowPadding;
    component.stride = strides[i];
    component.data = planes_[i].reserve(strides[i] * (rows.end - rows.begin) * rows_per_pass[i]);
    session.rows[i].resize(rows_per_pass[i]);
  }

  const auto lines_per_pass =
      static_cast<JDIMENSION>(info.max_v_samp_factor) * static_cast<JDIMENSION>(SPDL_MIN_DCT_HEIGHT(info));
  std::array<JSAMPARRAY, 4> passes{};
  for (std::size_t pass = 0; pass < rows.end; ++pass) {
    const bool is_skipped = pass < rows.begin;
    for (std::size_t i = 0; i < static_cast<std::size_t>(info.num_components); ++i) {
      // Coefficients above the region must be read, but a component that is not needed is not transformed.
      info.comp_info[i].component_needed = is_skipped ? FALSE : needed[i];
      std::uint8_t* row = planes_[i].data() + (is_skipped ? 0 : pass - rows.begin) * rows_per_pass[i] * strides[i];
      for (JSAMPROW& pointer : session.rows[i]) {
        pointer = row;
        row += strides[i];
      }
      passes[i] = session.rows[i].data();
    }
    session.guard([&] { jpeg_read_raw_data(&info, passes.data(), lines_per_pass); });
  }
  return picture;
}

Picture JpegDecoder::decode_to_rgb(const Rect& region) {
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  Picture picture;
  picture.model = model_of(info);
  // Chroma of the row above is part of the first one's.
  const int above = jump_to(std::max(region.top - 1, 0), region.bottom());
  session.guard([&] {
    if (picture.model == ColorModel::kYCbCr) {
      info.out_color_space = JCS_RGB;
    } else if (picture.model == ColorModel::kYcck) {
      info.out_color_space = JCS_CMYK;
    }
    jpeg_start_decompress(&info);
  });
  session.check_scans();
  picture.model = info.out_color_space == JCS_RGB    ? ColorModel::kRgb
                  : info.out_color_space == JCS_CMYK ? ColorModel::kCmyk
                                                     : ColorModel::kGray;
  picture.num_components = info.out_color_components;
  const auto channels = static_cast<std::size_t>(info.out_color_components);
  const int left = session.crop_pixels(region);
  const auto width = static_cast<std::size_t>(info.output_width);
  const std::size_t stride = round_up(width, kRowPadding) + kRowPadding;
  const auto num_rows = static_cast<std::size_t>(region.height);
  for (std::size_t i = 0; i < channels; ++i) {
    Component& component = picture.components[i];
    component.width = static_cast<int>(info.image_width);
    component.height = static_cast<int>(info.image_height) + above;
    component.extent_x = component.width;
    component.extent_y = component.height;
    component.stride = stride;
    component.held = {region.top, left, region.height, static_cast<int>(width)};
    component.data = planes_[i].reserve(stride * num_rows);
  }
  session.skip_rows(region.top - above, lines_);
  for (std::size_t done = 0; done < num_rows;) {
    const std::size_t count = session.read_rows(num_rows - done, lines_);
    for (std::size_t y = 0; y < count; ++y) {
      split(session.rows[0][y], channels, width, (done + y) * stride);
    }
    done += count;
  }
  return picture;
}

void JpegDecoder::split(const std::uint8_t* packed, std::size_t channels, std::size_t width, std::size_t at) noexcept {
  if (channels == 1) {
    std::memcpy(planes_[0].data() + at, packed, width);
  } else if (channels == 3) {
    kernels_.deinterleave(packed, planes_[0].data() + at, planes_[1].data() + at, planes_[2].data() + at,
                          static_cast<int>(width));
  } else {
    for (std::size_t i = 0; i < channels; ++i) {
      std::uint8_t* out = planes_[i].data() + at;
      for (std::size_t x = 0; x < width; ++x) {
        out[x] = packed[x * channels + i];
      }
    }
  }
}

bool JpegDecoder::decode_to_packed_rgb(std::uint8_t* out) {
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  const ColorModel model = model_of(info);
  if (model == ColorModel::kCmyk || model == ColorModel::kYcck) {
    return false;
  }
  session.guard([&] {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
  });
  session.check_scans();
  const std::size_t row_bytes = std::size_t{3} * info.output_width;
  std::array<JSAMPROW, JpegSession::kRowsPerCall> rows{};
  session.guard([&] {
    while (info.output_scanline < info.output_height) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] = out + (info.output_scanline + i) * row_bytes;
      }
      const auto left = info.output_height - info.output_scanline;
      jpeg_read_scanlines(&info, rows.data(), std::min(static_cast<JDIMENSION>(rows.size()), left));
    }
  });
  return true;
}

void JpegDecoder::trim(std::size_t keep_bytes) noexcept {
  session_->close();
  data_ = {};
  for (Buffer& plane : planes_) {
    if (plane.capacity() > keep_bytes) {
      plane.release();
    }
  }
}

const char* libjpeg_turbo_version() noexcept { return SPDL_TEXT(LIBJPEG_TURBO_VERSION); }

const char* libjpeg_turbo_path() noexcept {
  Dl_info info{};
  const bool is_found = dladdr(reinterpret_cast<const void*>(&jpeg_std_error), &info) != 0;
  return is_found && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace spdl
