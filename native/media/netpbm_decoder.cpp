#include "media/netpbm_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "image/batch.h"
#include "image/netpbm.h"
#include "media/still_memory.h"
#include "media/stored_samples.h"

namespace spdl {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorKind::kDecode, "decode", reason); }

[[noreturn]] void refuse_end() { refuse("the data ends before a picture is complete"); }

// Bytes of a row of samples as they are in the file; 0 where they are text.
std::int64_t row_bytes(const NetpbmHeader& header) noexcept {
  if (header.is_plain()) {
    return 0;
  }
  const std::int64_t count = header.width * header.depth;
  if (header.kind == '4') {
    return (count + 7) / 8;
  }
  return count * (header.kind == 'f' || header.kind == 'F' ? 4 : header.is_float() || header.most > 255 ? 2 : 1);
}

// Reads rows of samples one after the other.
class Samples {
 public:
  Samples(Bytes data, const NetpbmHeader& header)
      : data_(data), header_(header), count_(static_cast<std::size_t>(header.width * header.depth)), at_(header.size) {}

  void read(std::uint16_t* out) {
    if (header_.is_plain()) {
      read_text(out);
    } else {
      read_bytes(out, data_.data() + at_);
      at_ += static_cast<std::size_t>(row_bytes(header_));
    }
    if (header_.is_bits()) {  // pbm(5): 1 is black
      std::transform(out, out + count_, out, [](std::uint16_t bit) { return static_cast<std::uint16_t>(1 - bit); });
    }
  }

 private:
  void check(std::uint32_t value) const {
    if (value > header_.most) {
      refuse("it is damaged: a sample is " + std::to_string(value) + ", and the largest may be " +
             std::to_string(header_.most));
    }
  }

  void read_text(std::uint16_t* out) {
    for (std::size_t i = 0; i < count_; ++i) {
      const auto value = next_number(data_, at_, header_.kind == '1' ? 1 : 9);
      if (!value) {
        at_ < data_.size() ? refuse("it is damaged: a sample is no number") : refuse_end();
      }
      check(*value);
      out[i] = static_cast<std::uint16_t>(*value);
    }
  }

  void read_bytes(std::uint16_t* out, const std::uint8_t* row) const {
    if (header_.kind == '4') {
      for (std::size_t i = 0; i < count_; ++i) {
        out[i] = row[i / 8] >> (7 - i % 8) & 1;
      }
    } else if (header_.most > 255) {
      for (std::size_t i = 0; i < count_; ++i) {
        out[i] = static_cast<std::uint16_t>(row[2 * i] << 8 | row[2 * i + 1]);
      }
    } else {
      std::copy_n(row, count_, out);
    }
    if (header_.most != 65535 && header_.most != 255) {
      check(*std::max_element(out, out + count_));
    }
  }

  Bytes data_;
  const NetpbmHeader& header_;
  std::size_t count_;
  std::size_t at_;
};

// pam(5); AV_PIX_FMT_NONE for pixels that are no gray or colour.
AVPixelFormat format_of(const NetpbmHeader& header) noexcept {
  const bool is_deep = header.most > 255;
  const auto is = [&](std::string_view plain, int depth) {
    constexpr std::string_view kAlpha = "_ALPHA";
    std::string_view tuple = header.tuple;
    const bool has_alpha = depth == 2 || depth == 4;
    if (has_alpha && tuple.ends_with(kAlpha)) {
      tuple.remove_suffix(kAlpha.size());
    } else if (has_alpha && !tuple.empty()) {
      return false;
    }
    return header.depth == depth && (tuple.empty() || tuple == plain || (depth <= 2 && tuple == "BLACKANDWHITE"));
  };
  if (is("GRAYSCALE", 1)) {
    return is_deep ? AV_PIX_FMT_GRAY16 : AV_PIX_FMT_GRAY8;
  }
  if (is("GRAYSCALE", 2)) {
    return is_deep ? AV_PIX_FMT_YA16 : AV_PIX_FMT_YA8;
  }
  if (is("RGB", 3)) {
    return is_deep ? AV_PIX_FMT_RGB48 : AV_PIX_FMT_RGB24;
  }
  return !is("RGB", 4) ? AV_PIX_FMT_NONE : is_deep ? AV_PIX_FMT_RGBA64 : AV_PIX_FMT_RGBA;
}

av::FramePtr read_levels(Bytes data, const NetpbmHeader& header, AVPixelFormat format) {
  av::FramePtr frame = av::new_frame();
  frame->format = format;
  frame->width = static_cast<int>(header.width);
  frame->height = static_cast<int>(header.height);
  frame->color_range = AVCOL_RANGE_JPEG;
  allocate_pixels(*frame);
  const auto count = static_cast<std::size_t>(header.width * header.depth);
  if (header.most == 255 && !header.is_plain()) {
    for (int y = 0; y < frame->height; ++y) {
      std::memcpy(frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0],
                  data.data() + header.size + static_cast<std::size_t>(y) * count, count);
    }
    return frame;
  }
  const std::uint32_t white = header.most > 255 ? 65535 : 255;
  std::vector<std::uint16_t> levels(header.most + 1);
  for (std::uint64_t value = 0; value <= header.most; ++value) {
    levels[value] = static_cast<std::uint16_t>((2 * value * white + header.most) / (2 * std::uint64_t{header.most}));
  }
  Samples samples(data, header);
  std::vector<std::uint16_t> row(count);
  for (int y = 0; y < frame->height; ++y) {
    samples.read(row.data());
    std::transform(row.begin(), row.end(), row.begin(), [&](std::uint16_t value) { return levels[value]; });
    std::uint8_t* const out = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    if (white == 255) {
      std::transform(row.begin(), row.end(), out, [](std::uint16_t level) { return static_cast<std::uint8_t>(level); });
    } else {
      std::memcpy(out, row.data(), 2 * count);
    }
  }
  return frame;
}

av::FramePtr read_tuples(Bytes data, const NetpbmHeader& header) {
  const bool is_deep = header.most > 255;
  const auto count = static_cast<std::size_t>(header.width * header.depth);
  av::FramePtr frame = new_stored_samples({is_deep ? kUint16 : kUint8, header.depth}, static_cast<int>(header.width),
                                          static_cast<int>(header.height));
  Samples samples(data, header);
  std::vector<std::uint16_t> row(count);
  for (int y = 0; y < frame->height; ++y) {
    samples.read(row.data());
    std::uint8_t* const out = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    if (is_deep) {
      std::memcpy(out, row.data(), 2 * count);
    } else {
      std::transform(row.begin(), row.end(), out, [](std::uint16_t value) { return static_cast<std::uint8_t>(value); });
    }
  }
  return frame;
}

// pfm(5): the last row comes first.
av::FramePtr read_floats(Bytes data, const NetpbmHeader& header) {
  av::FramePtr frame = new_stored_samples({kFloat32, header.depth}, static_cast<int>(header.width),
                                          static_cast<int>(header.height));
  const auto count = static_cast<std::size_t>(header.width * header.depth);
  const std::size_t size = header.kind == 'f' || header.kind == 'F' ? 4 : 2;
  const auto unit = static_cast<float>(std::abs(header.scale));
  const std::uint8_t* from = data.data() + header.size;
  for (int y = frame->height; y-- > 0;) {
    std::uint8_t* out = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    for (std::size_t i = 0; i < count; ++i, from += size, out += sizeof(float)) {
      const Bytes sample(from, size);
      const std::uint32_t bits = header.scale < 0 ? little_endian(sample, 0, size) : big_endian(sample, 0, size);
      float value = size == 4 ? std::bit_cast<float>(bits) : from_half(bits);
      value = unit == 1 ? value : value / unit;
      std::memcpy(out, &value, sizeof(value));
    }
  }
  return frame;
}

}  // namespace

Still decode_netpbm(Bytes data, std::int64_t max_pixels, bool keeps_samples) {
  const auto header = netpbm_header(data);
  if (!header) {
    refuse("its header is damaged");
  }
  require_pixels(header->width, header->height, max_pixels);
  constexpr std::int64_t kMostPixelBytes = 32;  // as of TIFF
  if (header->depth * std::int64_t{2} > kMostPixelBytes && header->width * header->height > max_pixels / header->depth) {
    throw Error(ErrorKind::kImageTooLarge, "decode",
                "it has " + std::to_string(header->depth) + " samples in a pixel, more than max_pixels allows");
  }
  const auto there = static_cast<std::int64_t>(data.size() - header->size);
  // Text has a byte for each sample, and a blank between those that are no bits.
  const std::int64_t least = header->is_plain() ? header->width * header->depth : row_bytes(*header);
  if (least > there / header->height) {
    refuse_end();
  }
  const AVPixelFormat format = header->is_float() ? AV_PIX_FMT_NONE : format_of(*header);
  if (format == AV_PIX_FMT_NONE && !keeps_samples) {
    const std::string what = header->is_float() ? "floating point"
                                                : std::to_string(header->depth) + " to a pixel" +
                                                      (header->tuple.empty() ? "" : ", " + std::string(header->tuple));
    refuse("its samples are " + what +
           ", and no levels of gray or colour; load_image(…, filter_desc=None) returns them as they are");
  }
  Still still;
  still.lease = memory_budget().take(static_cast<std::size_t>(header->width * header->height * (4 * header->depth + 8)));
  still.frame = header->is_float()          ? read_floats(data, *header)
                : format == AV_PIX_FMT_NONE ? read_tuples(data, *header)
                                            : read_levels(data, *header, format);
  return still;
}

}  // namespace spdl
