#include "media/declared_size.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/sniff.h"
#include "image/bytes.h"

namespace spdl {
namespace {

// A size of EBML (RFC 8794, 4): as many bytes as its first one has zeros in front, and one; all ones mean unknown.
struct EbmlSize {
  std::size_t num_bytes = 0;  // of the size itself; 0 if it is not one
  std::optional<std::uint64_t> value;
};

EbmlSize ebml_size(Bytes data) noexcept {
  EbmlSize size;
  if (data.empty() || data[0] == 0) {
    return size;
  }
  const auto num_bytes = static_cast<std::size_t>(std::countl_zero(data[0])) + 1;
  if (data.size() < num_bytes) {
    return size;
  }
  const std::uint64_t unknown = (std::uint64_t{1} << (7 * num_bytes)) - 1;
  std::uint64_t value = data[0] & (0xffU >> num_bytes);
  for (std::size_t i = 1; i < num_bytes; ++i) {
    value = value << 8 | data[i];
  }
  size.num_bytes = num_bytes;
  if (value != unknown) {
    size.value = value;
  }
  return size;
}

// The header of EBML, and the segment that holds all the rest (RFC 9559, 4.5).
std::optional<std::uint64_t> end_of_segment(Bytes start) noexcept {
  const EbmlSize header = ebml_size(start.subspan(4));
  if (!header.value || *header.value > start.size()) {
    return std::nullopt;
  }
  const std::size_t segment = 4 + header.num_bytes + static_cast<std::size_t>(*header.value);
  if (!has_name(start, segment, "\x18\x53\x80\x67")) {
    return std::nullopt;
  }
  const EbmlSize size = ebml_size(start.subspan(segment + 4));
  if (!size.value) {
    return std::nullopt;
  }
  return segment + 4 + size.num_bytes + *size.value;
}

std::uint64_t big_endian_64(Bytes bytes, std::size_t offset) noexcept {
  return std::uint64_t{big_endian(bytes, offset, 4)} << 32 | big_endian(bytes, offset + 4, 4);
}

std::uint64_t little_endian_64(Bytes bytes, std::size_t offset) noexcept {
  return std::uint64_t{little_endian(bytes, offset + 4, 4)} << 32 | little_endian(bytes, offset, 4);
}

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::optional<std::uint64_t> end_at(std::uint64_t position, std::uint64_t size) noexcept {
  return size > 0 && size < kMostBytes ? std::optional(position + size) : std::nullopt;
}

// Audio Interchange File Format (Apple, 1989): the chunk SSND, in chunks of even length.
std::optional<std::uint64_t> end_of_aiff(Bytes start) noexcept {
  std::uint64_t at = 12;
  while (at + 8 <= start.size()) {
    const std::uint32_t size = big_endian(start, at + 4, 4);
    at += 8;
    if (has_name(start, at - 8, "SSND")) {
      return size < 0xffffffff ? end_at(at, size) : std::nullopt;
    }
    at += std::uint64_t{size} + (size & 1);
  }
  return std::nullopt;
}

// Core Audio Format Specification 1.0 (Apple): the chunk data, whose size is -1 if it is the last one and was not filled in.
std::optional<std::uint64_t> end_of_caf(Bytes start) noexcept {
  std::uint64_t at = 8;
  while (at + 12 <= start.size()) {
    const std::uint64_t size = big_endian_64(start, at + 4);
    at += 12;
    if (has_name(start, at - 12, "data") || size >= kMostBytes) {
      return end_at(at, size);
    }
    at += size;
  }
  return std::nullopt;
}

// Sony Wave64: chunks have a GUID, a size of 64 bits that counts the header too, and begin at multiples of 8.
std::optional<std::uint64_t> end_of_w64(Bytes start) noexcept {
  constexpr std::uint64_t kHeader = 24;
  std::uint64_t at = 40;
  while (at + kHeader <= start.size()) {
    const std::uint64_t size = little_endian_64(start, at + 16);
    if (has_name(start, at, "data") || size < kHeader || size >= kMostBytes) {
      return end_at(at, size);
    }
    at += (size + 7) / 8 * 8;
  }
  return std::nullopt;
}

// A header, blocks of 18 bytes for 32 samples of each channel, and a footer (as in FFmpeg, libavformat/adxdec.c).
std::optional<std::uint64_t> end_of_adx(Bytes start) noexcept {
  const std::uint64_t header = big_endian(start, 2, 2) + 4;
  if (header < 6 || !has_name(start, header - 6, "(c)CRI") || byte_at(start, 4) != 3) {
    return std::nullopt;
  }
  const std::uint64_t num_blocks = (std::uint64_t{big_endian(start, 12, 4)} + 31) / 32;
  return num_blocks > 0 ? end_at(header, num_blocks * 18 * byte_at(start, 7)) : std::nullopt;
}

// Of formats whose samples end at a stated place.
std::optional<std::uint64_t> end_of_sound(Bytes start) noexcept {
  if (has_name(start, 0, "FORM") && (has_name(start, 8, "AIFF") || has_name(start, 8, "AIFC"))) {
    return end_of_aiff(start);
  }
  if (has_name(start, 0, ".snd")) {
    const std::uint32_t size = big_endian(start, 8, 4);  // all ones: unknown
    return size < 0xffffffff ? end_at(big_endian(start, 4, 4), size) : std::nullopt;
  }
  if (has_name(start, 0, "caff")) {
    return end_of_caf(start);
  }
  if (has_name(start, 0, "riff\x2e\x91\xcf\x11")) {
    return end_of_w64(start);
  }
  constexpr std::uint64_t kSoxSample = 4;
  if (has_name(start, 0, ".SoX")) {
    return end_at(4 + std::uint64_t{little_endian(start, 4, 4)}, little_endian_64(start, 8) % kMostBytes * kSoxSample);
  }
  if (has_name(start, 0, "XoS.")) {
    return end_at(4 + std::uint64_t{big_endian(start, 4, 4)}, big_endian_64(start, 8) % kMostBytes * kSoxSample);
  }
  return byte_at(start, 0) == 0x80 && byte_at(start, 1) == 0 ? end_of_adx(start) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> declared_size(Bytes start) noexcept {
  const std::string_view format = sniff_format(start);
  if (format == "Matroska or WebM") {
    return end_of_segment(start);
  }
  // Of the first of several parts, if it is large; 0 where the writer could not go back.
  if (format == "AVI" && little_endian(start, 4, 4) != 0 && little_endian(start, 4, 4) != 0xffffffff) {
    return std::uint64_t{8} + little_endian(start, 4, 4);
  }
  return end_of_sound(start);
}

bool is_endless_wav(Bytes start) noexcept {
  std::size_t at = 12;
  while (has_name(start, 0, "RIFF") && start.size() >= at + 8) {
    const std::uint32_t size = little_endian(start, at + 4, 4);
    if (has_name(start, at, "data")) {
      return size == 0 || size >= 0x7ffff000;  // what FFmpeg and SoX write
    }
    at += std::size_t{8} + size + (size & 1);
  }
  return false;
}

}  // namespace spdl
