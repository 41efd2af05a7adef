#include "image/header.h"

#include <algorithm>
#include <cstdlib>

#include "image/gif.h"
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
  return std::nullopt;
}

std::string_view misread_because(std::string_view format, Bytes data) noexcept {
  if (format == "TIFF") {
    constexpr std::uint32_t kCompression = 259;
    const auto compression = TiffDirectory(data).short_field(kCompression).value_or(1);
    return compression == 6 || compression == 7 ? "it is a TIFF that holds JPEG data, which FFmpeg does not decode" : "";
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
