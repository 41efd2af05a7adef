#include "media/stored_png.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "archive/inflate.h"

namespace spdl {
namespace {

constexpr std::size_t kSignature = 8;
constexpr std::size_t kChunkHeader = 8;  // length and name
constexpr std::size_t kChecksum = 4;
constexpr std::size_t kMostBytes = std::size_t{1} << 29;

// Of a pixel, by colour type; 0: no such type.
std::size_t samples_of(std::uint32_t colour_type) noexcept {
  constexpr std::array<std::size_t, 7> kSamples = {1, 0, 3, 1, 2, 0, 4};
  return colour_type < kSamples.size() ? kSamples[colour_type] : 0;
}

void put_big_endian(std::uint8_t* to, std::uint32_t value) noexcept {
  for (int i = 0; i < 4; ++i) {
    to[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
  }
}

struct Parts {
  std::size_t pixels_begin = 0;  // of the first chunk of pixels
  std::size_t pixels_end = 0;    // of the last one
  std::span<const std::uint8_t> compressed;
};

// Each length is read once, for others may write to the data meanwhile: together they never exceed its size.
std::optional<Parts> take_apart(Bytes png, Buffer& compressed) {
  std::uint8_t* const to = compressed.reserve(png.size());
  std::size_t size = 0;
  Parts parts;
  for (std::size_t at = kSignature; at < png.size();) {
    const std::size_t length = big_endian(png, at, 4);
    const std::size_t room = png.size() - at;
    if (room < kChunkHeader + kChecksum || length > room - kChunkHeader - kChecksum) {
      return std::nullopt;
    }
    const Bytes named = part(png, at + 4, 4 + length);
    if (crc32(named) != big_endian(png, at + kChunkHeader + length, kChecksum)) {
      return std::nullopt;
    }
    const std::size_t end = at + kChunkHeader + length + kChecksum;
    if (has_name(png, at + 4, "IDAT")) {
      if (parts.pixels_begin == 0) {
        parts.pixels_begin = at;
      } else if (parts.pixels_end != at) {
        return std::nullopt;
      }
      std::memcpy(to + size, named.data() + 4, length);
      size += length;
      parts.pixels_end = end;
    }
    at = end;
  }
  parts.compressed = {to, size};
  return parts.pixels_begin == 0 ? std::nullopt : std::optional(parts);
}

}  // namespace

std::size_t filtered_bytes(Bytes png) noexcept {
  struct Pass {
    std::size_t left, top, step_x, step_y;
  };
  static constexpr std::array<Pass, 7> kAdam7 = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  static constexpr std::array<Pass, 1> kOnce = {{{0, 0, 1, 1}}};
  const std::size_t width = big_endian(png, 16, 4);
  const std::size_t height = big_endian(png, 20, 4);
  const std::size_t bits = byte_at(png, 24) * samples_of(byte_at(png, 25));
  constexpr std::size_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (!has_name(png, 12, "IHDR") || width > kLargest || height > kLargest || bits == 0 || bits > 64) {
    return 0;
  }
  const bool is_interlaced = byte_at(png, 28) != 0;
  std::size_t total = 0;
  for (const Pass& pass : is_interlaced ? std::span<const Pass>(kAdam7) : std::span<const Pass>(kOnce)) {
    const std::size_t columns = width > pass.left ? (width - pass.left + pass.step_x - 1) / pass.step_x : 0;
    const std::size_t rows = height > pass.top ? (height - pass.top + pass.step_y - 1) / pass.step_y : 0;
    total += columns == 0 ? 0 : std::min(rows * (1 + (columns * bits + 7) / 8), kMostBytes + 1);
  }
  return total;
}

// zlib's format (RFC 1950) with stored blocks (RFC 1951, 3.2.4).
std::optional<Bytes> with_stored_pixels(Bytes png, Buffer& into, std::size_t padding) {
  constexpr std::size_t kMostOfBlock = 65535;
  constexpr std::size_t kBlockHeader = 5;
  constexpr std::array<std::uint8_t, 2> kZlibHeader = {0x78, 0x01};
  if (libdeflate_version().empty()) {
    return std::nullopt;
  }
  const std::size_t size = filtered_bytes(png);
  Buffer memory;
  const auto parts = size == 0 || size > kMostBytes ? std::nullopt : take_apart(png, memory);
  if (!parts) {
    return std::nullopt;
  }
  const std::size_t num_blocks = (size + kMostOfBlock - 1) / kMostOfBlock;
  const std::size_t stored = kZlibHeader.size() + num_blocks * kBlockHeader + size + kChecksum;
  const Bytes tail = part(png, parts->pixels_end);
  const std::size_t whole = parts->pixels_begin + kChunkHeader + stored + kChecksum + tail.size();
  std::uint8_t* const file = into.reserve(whole + padding);
  std::uint8_t* const end_of_pixels = file + whole - tail.size() - 2 * kChecksum;
  // The pixels are inflated to the end of where they belong, and then move to the front block by block.
  std::uint8_t* from = end_of_pixels - size;
  const auto sum = inflate_zlib(parts->compressed, {from, size});
  if (!sum) {
    return std::nullopt;
  }
  std::uint8_t* to = file;
  const auto put = [&](const void* bytes, std::size_t count) {
    std::memmove(to, bytes, count);
    to += count;
  };
  put(png.data(), parts->pixels_begin);
  put_big_endian(to, static_cast<std::uint32_t>(stored));
  to += 4;
  put("IDAT", 4);
  put(kZlibHeader.data(), kZlibHeader.size());
  while (from != end_of_pixels) {
    const auto count = std::min(kMostOfBlock, static_cast<std::size_t>(end_of_pixels - from));
    const auto low = static_cast<std::uint8_t>(count);
    const auto high = static_cast<std::uint8_t>(count >> 8);
    const std::uint8_t is_last = count == static_cast<std::size_t>(end_of_pixels - from) ? 1 : 0;
    const std::array<std::uint8_t, kBlockHeader> header = {is_last, low, high, static_cast<std::uint8_t>(~low),
                                                           static_cast<std::uint8_t>(~high)};
    put(header.data(), header.size());
    put(from, count);
    from += count;
  }
  put_big_endian(to, *sum);
  put_big_endian(to + kChecksum, 0);
  to += 2 * kChecksum;
  put(tail.data(), tail.size());
  std::memset(to, 0, padding);
  return Bytes{file, whole};
}

}  // namespace spdl
