#include "image/webp.h"

#include <array>
#include <cstring>

namespace spdl {
namespace {

constexpr std::size_t kFirstChunk = 12;

void put(std::uint8_t*& to, Bytes bytes) noexcept {
  std::memcpy(to, bytes.data(), bytes.size());
  to += bytes.size();
}

void put_little_endian(std::uint8_t*& to, std::size_t value, int size) noexcept {
  for (int i = 0; i < size; ++i) {
    *to++ = static_cast<std::uint8_t>(value >> (8 * i));
  }
}

}  // namespace

// RFC 9649, section 2.3.
Bytes find_webp_chunk(Bytes webp, std::string_view name) noexcept {
  constexpr std::size_t kHeader = 8;
  for (std::size_t at = kFirstChunk; at + kHeader <= webp.size();) {
    const std::size_t length = little_endian(webp, at + 4, 4);
    if (has_name(webp, at, name)) {
      return part(webp, at + kHeader, length);
    }
    at += kHeader + length + length % 2;
  }
  return {};
}

// RFC 9649, section 2.7.
std::optional<WebpFrame> first_frame(Bytes webp, Buffer& into) {
  constexpr std::uint32_t kAnimated = 0x02;
  constexpr std::uint32_t kAlpha = 0x10;
  constexpr std::size_t kFrameHeader = 16;
  if (!has_name(webp, kFirstChunk, "VP8X") || (byte_at(webp, kFirstChunk + 8) & kAnimated) == 0) {
    return std::nullopt;
  }
  WebpFrame frame;
  frame.canvas_width = static_cast<int>(little_endian(webp, kFirstChunk + 12, 3)) + 1;
  frame.canvas_height = static_cast<int>(little_endian(webp, kFirstChunk + 15, 3)) + 1;
  for (std::size_t at = kFirstChunk; at + 8 <= webp.size();) {
    const std::size_t length = little_endian(webp, at + 4, 4);
    if (has_name(webp, at, "ANMF")) {
      const Bytes header = part(webp, at + 8, kFrameHeader);
      const Bytes chunks = part(webp, at + 8 + kFrameHeader, length < kFrameHeader ? 0 : length - kFrameHeader);
      frame.left = 2 * static_cast<int>(little_endian(header, 0, 3));
      frame.top = 2 * static_cast<int>(little_endian(header, 3, 3));
      constexpr std::size_t kBefore = kFirstChunk + 8 + 10;
      std::uint8_t* to = into.reserve(kBefore + chunks.size());
      frame.data = {to, kBefore + chunks.size()};
      put(to, as_bytes("RIFF"));
      put_little_endian(to, frame.data.size() - 8, 4);
      put(to, as_bytes("WEBPVP8X"));
      put_little_endian(to, 10, 4);
      put_little_endian(to, has_name(chunks, 0, "ALPH") ? kAlpha : 0, 4);
      put_little_endian(to, little_endian(header, 6, 3), 3);
      put_little_endian(to, little_endian(header, 9, 3), 3);
      put(to, chunks);
      return frame;
    }
    at += 8 + length + length % 2;
  }
  return std::nullopt;
}

}  // namespace spdl
