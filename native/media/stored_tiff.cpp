#include "media/stored_tiff.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include "archive/inflate.h"
#include "image/lzw.h"
#include "image/tiff.h"

namespace spdl {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 29;

enum Tag : std::uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kMeaning = 262,
  kFillOrder = 266,
  kStripOffsets = 273,
  kSamplesPerPixel = 277,
  kRowsPerStrip = 278,
  kStripBytes = 279,
  kPlanes = 284,
  kPredictor = 317,
  kTileWidth = 322,
  kTileOffsets = 324,
};

enum Compression : std::uint32_t { kStored = 1, kLzw = 5, kDeflate = 8, kOldDeflate = 32946 };

struct Layout {
  std::size_t row_bytes = 0;
  std::size_t height = 0;
  std::size_t rows_per_strip = 0;
  std::size_t num_strips = 0;
  std::uint32_t compression = 0;

  std::size_t size() const noexcept { return row_bytes * height; }
};

bool is_one_of(std::uint32_t value, std::initializer_list<std::uint32_t> values) noexcept {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// What FFmpeg's decoder takes for a field that is not there is what the standard says. Fields of another type or count than is
// usual are left to it.
std::optional<Layout> layout_of(const TiffDirectory& directory) noexcept {
  constexpr std::uint32_t kMostMeanings = 3;  // gray in both directions, RGB, a palette
  constexpr std::uint32_t kMostSamples = 4;
  constexpr std::uint32_t kLongestSide = 1U << 20;
  const auto value = [&](Tag tag, std::uint32_t otherwise) {
    return directory.has(tag) ? directory.number_field(tag).value_or(UINT32_MAX) : otherwise;
  };
  const std::uint32_t width = value(kWidth, 0);
  const std::uint32_t height = value(kHeight, 0);
  const std::uint32_t samples = value(kSamplesPerPixel, 1);
  Layout layout{.compression = value(kCompression, kStored)};
  if (!is_one_of(layout.compression, {kLzw, kDeflate, kOldDeflate}) || value(kMeaning, UINT32_MAX) > kMostMeanings ||
      value(kFillOrder, 1) != 1 || value(kPlanes, 1) != 1 || !is_one_of(value(kPredictor, 1), {1, 2}) ||
      directory.has(kTileWidth) || directory.has(kTileOffsets) || samples < 1 || samples > kMostSamples || width < 1 ||
      width > kLongestSide || height < 1 || height > kLongestSide) {
    return std::nullopt;
  }
  const std::uint32_t bits = directory.value_at(kBitsPerSample, 0).value_or(0);
  bool is_whole = directory.count_of(kBitsPerSample) == samples && is_one_of(bits, {8, 16});
  for (std::uint32_t i = 1; is_whole && i < samples; ++i) {
    is_whole = directory.value_at(kBitsPerSample, i) == bits;
  }
  const std::uint32_t rows_per_strip = std::min(value(kRowsPerStrip, height), height);
  if (!is_whole || rows_per_strip < 1) {
    return std::nullopt;
  }
  layout.height = height;
  layout.row_bytes = std::size_t{width} * samples * bits / 8;
  layout.rows_per_strip = rows_per_strip;
  layout.num_strips = (height + rows_per_strip - 1) / rows_per_strip;
  if (layout.row_bytes > kMostBytes / layout.height || directory.count_of(kStripOffsets) != layout.num_strips ||
      directory.count_of(kStripBytes) != layout.num_strips) {
    return std::nullopt;
  }
  return layout;
}

bool unpack(Bytes strip, std::uint32_t compression, std::span<std::uint8_t> out) noexcept {
  if (compression != kLzw) {
    return inflate_zlib(strip, out).has_value();
  }
  // It begins by clearing the table. Files of an early libtiff, with codes as in GIF, do that at the other end of the bits.
  constexpr std::uint32_t kClear = 256;
  return big_endian(strip, 0, 2) >> 7 == kClear && unpack_lzw(strip, LzwKind::kTiff, kLzwBits, out);
}

// Sets the value of the entry, which is in the entry itself.
void set_field(std::span<std::uint8_t> tiff, const TiffDirectory& directory, Tag tag, std::uint32_t value) noexcept {
  constexpr std::uint32_t kLong = 4;
  for (std::size_t i = 0; i < directory.num_entries(); ++i) {
    if (directory.tag_of(i) != tag) {
      continue;
    }
    std::uint8_t* const entry = tiff.data() + directory.offset_of(i);
    const auto put = [&](std::size_t at, std::uint32_t number, std::size_t size) {
      for (std::size_t k = 0; k < size; ++k) {
        const std::size_t shift = 8 * (directory.is_big_endian() ? size - 1 - k : k);
        entry[at + k] = static_cast<std::uint8_t>(number >> shift);
      }
    };
    put(2, kLong, 2);
    put(4, 1, 4);
    put(8, value, 4);
  }
}

}  // namespace

std::optional<Bytes> with_stored_strips(Bytes tiff, Buffer& into, std::size_t padding) {
  const TiffDirectory directory(tiff);
  const auto layout = layout_of(directory);
  if (!layout || tiff.size() > kMostBytes ||
      (layout->compression != kLzw && libdeflate_version().empty())) {
    return std::nullopt;
  }
  // What other fields refer to stays where it is; the strip follows.
  const std::size_t begin = round_up(tiff.size(), kAlignment);
  const std::size_t whole = begin + layout->size();
  std::uint8_t* const file = into.reserve(whole + padding);
  for (std::size_t i = 0; i < layout->num_strips; ++i) {
    const std::size_t top = i * layout->rows_per_strip;
    const std::size_t rows = std::min(layout->rows_per_strip, layout->height - top);
    const std::size_t at = directory.value_at(kStripOffsets, i).value_or(UINT32_MAX);
    const std::size_t size = directory.value_at(kStripBytes, i).value_or(0);
    const Bytes strip = part(tiff, at, size);
    if (strip.size() != size ||
        !unpack(strip, layout->compression, {file + begin + top * layout->row_bytes, rows * layout->row_bytes})) {
      return std::nullopt;
    }
  }
  std::memcpy(file, tiff.data(), tiff.size());
  std::memset(file + tiff.size(), 0, begin - tiff.size());
  std::memset(file + whole, 0, padding);
  const std::span<std::uint8_t> front(file, tiff.size());
  set_field(front, directory, kCompression, kStored);
  set_field(front, directory, kStripOffsets, static_cast<std::uint32_t>(begin));
  set_field(front, directory, kStripBytes, static_cast<std::uint32_t>(layout->size()));
  set_field(front, directory, kRowsPerStrip, static_cast<std::uint32_t>(layout->height));
  return Bytes{file, whole};
}

}  // namespace spdl
