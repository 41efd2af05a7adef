#include "image/webp.h"

#include <array>
#include <cstring>

namespace spdl {
namespace {

constexpr std::size_t kFirstChunk = 12;
constexpr std::size_t kChunkHeader = 8;
constexpr std::size_t kFrameHeader = 16;
constexpr std::uint32_t kAlpha = 0x10;

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
  for (std::size_t at = kFirstChunk; at + kChunkHeader <= webp.size();) {
    const std::size_t length = little_endian(webp, at + 4, 4);
    if (has_name(webp, at, name)) {
      return part(webp, at + kChunkHeader, length);
    }
    at += kChunkHeader + length + length % 2;
  }
  return {};
}

std::optional<WebpAnimationHeader> animation_header(Bytes webp) noexcept {
  constexpr std::uint32_t kAnimated = 0x02;
  if (!has_name(webp, 0, "RIFF") || !has_name(webp, 8, "WEBPVP8X") || (byte_at(webp, kFirstChunk + 8) & kAnimated) == 0) {
    return std::nullopt;
  }
  return WebpAnimationHeader{static_cast<int>(little_endian(webp, kFirstChunk + 12, 3)) + 1,
                             static_cast<int>(little_endian(webp, kFirstChunk + 15, 3)) + 1,
                             (byte_at(webp, kFirstChunk + 8) & kAlpha) != 0};
}

std::optional<WebpAnimationFrame> animation_frame(Bytes chunk) noexcept {
  if (!has_name(chunk, 0, "ANMF") || chunk.size() < kChunkHeader + kFrameHeader) {
    return std::nullopt;
  }
  const Bytes header = chunk.subspan(kChunkHeader, kFrameHeader);
  WebpAnimationFrame frame;
  frame.left = 2 * static_cast<int>(little_endian(header, 0, 3));
  frame.top = 2 * static_cast<int>(little_endian(header, 3, 3));
  frame.width = static_cast<int>(little_endian(header, 6, 3)) + 1;
  frame.height = static_cast<int>(little_endian(header, 9, 3)) + 1;
  frame.duration = static_cast<int>(little_endian(header, 12, 3));
  frame.blends = (header[15] & 2) == 0;
  frame.disposes = (header[15] & 1) != 0;
  frame.picture = chunk.subspan(kChunkHeader + kFrameHeader);
  for (std::size_t at = 0; at + kChunkHeader <= frame.picture.size();) {
    const std::size_t length = little_endian(frame.picture, at + 4, 4);
    if (has_name(frame.picture, at, "ALPH") || has_name(frame.picture, at, "VP8 ")) {
      frame.has_alpha = has_name(frame.picture, at, "ALPH");
      return frame;
    }
    if (has_name(frame.picture, at, "VP8L")) {
      // Behind the signature, and 14 bits each of the width and the height (RFC 9649, 3.4).
      frame.has_alpha = (little_endian(frame.picture, at + kChunkHeader + 1, 4) >> 28 & 1) != 0;
      return frame;
    }
    at += kChunkHeader + length + length % 2;
  }
  return std::nullopt;
}

bool is_key_frame(const WebpAnimationFrame& frame, const WebpAnimationFrame& before, bool before_is_key, int canvas_width,
                  int canvas_height) noexcept {
  if ((!frame.has_alpha || !frame.blends) && frame.fills(canvas_width, canvas_height)) {
    return true;
  }
  return before.disposes && (before.fills(canvas_width, canvas_height) || before_is_key);
}

// RFC 9649, section 2.7.
std::optional<WebpFrame> first_frame(Bytes webp, Buffer& into) {
  const auto animation = animation_header(webp);
  if (!animation) {
    return std::nullopt;
  }
  WebpFrame frame;
  frame.canvas_width = animation->width;
  frame.canvas_height = animation->height;
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
