#include "image/header.h"

#include <algorithm>
#include <cstdlib>

#include "image/gif.h"
#include "image/heif.h"
#include "image/jpeg_facts.h"
#include "image/netpbm.h"
#include "image/tiff.h"

namespace spdl {
namespace {

// Headers of OS/2 (12 bytes) and Windows (40 and more). Rows may go up or down.
bool is_old_bmp(Bytes data) noexcept { return little_endian(data, 14, 4) == 12; }

DeclaredSize size_of_bmp(Bytes data) noexcept {
  if (is_old_bmp(data)) {
    return {little_endian(data, 18, 2), little_endian(data, 20, 2)};
  }
  return {little_endian(data, 18, 4), std::abs(std::int64_t{static_cast<std::int32_t>(little_endian(data, 22, 4))})};
}

bool bmp_ends_early(Bytes data) noexcept {
  const bool is_old = is_old_bmp(data);
  const std::uint32_t compression = is_old ? 0 : little_endian(data, 30, 4);
  if (compression == 1 || compression == 2) {  // run lengths: the decoder knows where they end
    return false;
  }
  const DeclaredSize size = size_of_bmp(data);
  const std::size_t bits = little_endian(data, is_old ? 24 : 28, 2);
  const std::size_t row = (static_cast<std::size_t>(size.width) * bits + 31) / 32 * 4;
  const std::size_t num_bytes = part(data, little_endian(data, 10, 4)).size();
  return size.height > 0 && row > num_bytes / static_cast<std::size_t>(size.height);
}

// Whether each pixel is an index of a palette that is not there. FFmpeg's decoder takes the indices for gray.
bool lacks_palette(Bytes data) noexcept {
  const bool is_old = is_old_bmp(data);
  const std::uint32_t bits = little_endian(data, is_old ? 24 : 28, 2);
  const std::uint64_t header_end = std::uint64_t{14} + little_endian(data, 14, 4);
  return bits >= 1 && bits <= 8 && little_endian(data, 10, 4) <= header_end;
}

DeclaredSize size_of_jpeg(Bytes data) noexcept {
  const JpegFacts facts = inspect_jpeg(data);
  return {facts.width, facts.height};
}

// RFC 9649, sections 2.5 to 2.7.
DeclaredSize size_of_webp(Bytes data) noexcept {
  constexpr std::size_t kContents = 20;
  if (has_name(data, 12, "VP8X")) {
    return {std::int64_t{little_endian(data, kContents + 4, 3)} + 1, std::int64_t{little_endian(data, kContents + 7, 3)} + 1};
  }
  if (has_name(data, 12, "VP8L")) {
    const std::uint32_t bits = little_endian(data, kContents + 1, 4);
    return {(bits & 0x3fffU) + 1, (bits >> 14 & 0x3fffU) + 1};
  }
  return {little_endian(data, kContents + 6, 2) & 0x3fffU, little_endian(data, kContents + 8, 2) & 0x3fffU};
}

// ISO/IEC 15444-1, I.5.3.1 and A.5.1: a box in front, or the first segment of a bare codestream.
DeclaredSize size_of_jpeg2000(Bytes data) noexcept {
  const Bytes front = part(data, 0, 256);
  const Bytes wanted = as_bytes("ihdr");
  const auto found = std::search(front.begin(), front.end(), wanted.begin(), wanted.end());
  if (found != front.end()) {
    const auto at = static_cast<std::size_t>(found - front.begin()) + wanted.size();
    return {big_endian(data, at + 4, 4), big_endian(data, at, 4)};
  }
  return {std::int64_t{big_endian(data, 8, 4)} - big_endian(data, 16, 4),
          std::int64_t{big_endian(data, 12, 4)} - big_endian(data, 20, 4)};
}

// TIFF 6.0, sections 5, 15, 16 to 19, 21 and 23: what the decoder of FFmpeg 5.1 gives other pixels for, or calls damaged.
std::string_view misread_tiff(Bytes data) noexcept {
  const TiffDirectory directory(data);
  if (directory.is_big()) {
    return "it is a BigTIFF, which FFmpeg does not read";
  }
  const auto value = [&](std::uint32_t tag, std::uint32_t otherwise) {
    return directory.value_at(tag, 0).value_or(otherwise);
  };
  const std::uint32_t compression = value(259, 1);
  if (compression == 6 || compression == 7) {
    return "it is a TIFF that holds JPEG data, which FFmpeg does not decode";
  }
  if (directory.has(322) || directory.has(324)) {
    return "it is a TIFF in tiles, which FFmpeg does not read";
  }
  constexpr std::uint32_t kUnsigned = 1;
  constexpr std::uint32_t kUntyped = 4;
  if (const std::uint32_t kind = value(339, kUnsigned); kind != kUnsigned && kind != kUntyped) {
    return "it is a TIFF of signed or floating-point samples, which FFmpeg takes for levels without a sign";
  }
  constexpr std::uint32_t kWhiteIsZero = 0;
  constexpr std::uint32_t kPalette = 3;
  constexpr std::uint32_t kInks = 5;
  constexpr std::uint32_t kYcbcr = 6;
  constexpr std::uint32_t kLab = 8;
  const std::uint32_t bits = value(258, 1);
  const std::uint32_t samples = value(277, 1);
  const bool is_planar = samples > 1 && value(284, 1) == 2;
  const std::uint32_t meaning = value(262, 1);
  if (bits > 16) {
    return "it is a TIFF of more than 16 bits a sample, which FFmpeg does not read";
  }
  if (meaning == kPalette && samples > 1) {
    return "it is a TIFF with a palette and more than one sample to a pixel, whose palette FFmpeg leaves out";
  }
  if (meaning == kInks && !directory.is_big_endian() && bits == 16) {
    return "it is a little-endian TIFF in CMYK of 16 bits, which FFmpeg takes for RGB";
  }
  if (meaning == kInks && is_planar) {
    return "it is a TIFF in CMYK with planes of inks, which FFmpeg takes for RGB";
  }
  if (meaning == kYcbcr && is_planar) {
    return "it is a TIFF in YCbCr with planes, which FFmpeg takes for RGB";
  }
  if (meaning == kWhiteIsZero && bits > 8) {
    return "it is a TIFF of more than 8 bits whose zero is white, which FFmpeg takes for black";
  }
  if (meaning >= kLab && meaning <= kLab + 2) {
    return "it is a TIFF in L*a*b*, which FFmpeg takes for RGB";
  }
  return {};
}

DeclaredSize size_of_tiff(Bytes data) noexcept {
  const TiffDirectory directory(data);
  return {directory.number_field(256).value_or(0), directory.number_field(257).value_or(0)};
}

// qoiformat.org: the end is seven zeros and a one.
bool qoi_ends_early(Bytes data) noexcept {
  constexpr std::string_view kEnd("\0\0\0\0\0\0\0\1", 8);
  return data.size() < kEnd.size() || !has_name(data, data.size() - kEnd.size(), kEnd);
}

}  // namespace

std::optional<DeclaredSize> declared_size(std::string_view format, Bytes data) noexcept {
  if (format == "PNG") {
    return DeclaredSize{big_endian(data, 16, 4), big_endian(data, 20, 4)};
  }
  if (format == "GIF") {
    return DeclaredSize{little_endian(data, 6, 2), little_endian(data, 8, 2)};
  }
  if (format == "BMP") {
    return size_of_bmp(data);
  }
  if (format == "TIFF") {
    return size_of_tiff(data);
  }
  if (format == "QOI") {
    return DeclaredSize{big_endian(data, 4, 4), big_endian(data, 8, 4)};
  }
  if (format == "JPEG") {
    return size_of_jpeg(data);
  }
  if (format == "WebP") {
    return size_of_webp(data);
  }
  if (format == "JPEG 2000") {
    return size_of_jpeg2000(data);
  }
  if (format == "HEIF") {
    const HeifFacts facts = inspect_heif(data);
    return DeclaredSize{facts.width, facts.height};
  }
  if (format == "Netpbm") {
    const auto header = netpbm_header(data);
    return header ? DeclaredSize{header->width, header->height} : DeclaredSize{0, 0};
  }
  if (format == "PSD") {
    return DeclaredSize{big_endian(data, 18, 4), big_endian(data, 14, 4)};
  }
  return std::nullopt;
}

std::string_view misread_because(std::string_view format, Bytes data) noexcept {
  if (format == "TIFF") {
    return misread_tiff(data);
  }
  if (format == "BMP") {
    return lacks_palette(data) ? "it is a BMP without the palette that its pixels are indices of" : "";
  }
  if (format == "JPEG") {
    return misread_because(inspect_jpeg(data));
  }
  if (format == "Netpbm") {
    const auto header = netpbm_header(data);
    return header && header->is_float() ? "it is a PFM, which releases of FFmpeg before 7 turn upside down" : "";
  }
  if (format == "JPEG 2000") {
    // ISO/IEC 15444-1, I.5.3.3, and 15444-2, table M.25: a colour specification by number, which is 12.
    constexpr std::string_view kCmyk("\0\0\0\x0f" "colr" "\1\0\0\0\0\0\x0c", 15);
    const Bytes front = part(data, 0, 256);
    const Bytes wanted = as_bytes(kCmyk);
    const bool is_cmyk = std::search(front.begin(), front.end(), wanted.begin(), wanted.end()) != front.end();
    return is_cmyk ? "it is a JPEG 2000 in CMYK, which FFmpeg takes for RGB" : "";
  }
  return {};
}

bool has_padding_for_alpha(std::string_view format, Bytes data) noexcept {
  if (format != "BMP") {
    return false;
  }
  constexpr std::uint32_t kWithAlphaMask = 56;  // bytes of the first header that has one
  constexpr std::uint32_t kBitFields = 3;
  return little_endian(data, 14, 4) < kWithAlphaMask || little_endian(data, 30, 4) != kBitFields ||
         little_endian(data, 66, 4) == 0;
}

bool ends_early(std::string_view format, Bytes data) noexcept {
  if (format == "JPEG") {
    return !has_end_marker(data);
  }
  if (format == "GIF") {
    return inspect_gif(data).ends_early;
  }
  if (format == "BMP") {
    return bmp_ends_early(data);
  }
  if (format == "QOI") {
    return qoi_ends_early(data);
  }
  return false;
}

}  // namespace spdl
