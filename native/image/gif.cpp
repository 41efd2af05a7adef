#include "image/gif.h"

namespace spdl {
namespace {

constexpr std::uint32_t kExtension = 0x21;
constexpr std::uint32_t kGraphicControl = 0xf9;
constexpr std::uint32_t kImage = 0x2c;

// Where the data blocks end that start at `at`, each after its length, up to one of length 0.
std::size_t skip_blocks(Bytes gif, std::size_t at) noexcept {
  while (at < gif.size() && gif[at] != 0) {
    at += 1 + gif[at];
  }
  return at + 1;
}

std::size_t table_bytes(std::uint32_t flags) noexcept {
  return (flags & 0x80U) != 0 ? std::size_t{3} << ((flags & 7U) + 1) : 0;
}

}  // namespace

// GIF89a, sections 15 to 23.
GifFacts inspect_gif(Bytes gif) noexcept {
  constexpr std::size_t kHeader = 13;
  GifFacts facts;
  Bytes palette = part(gif, kHeader, table_bytes(byte_at(gif, 10)));
  std::optional<std::uint32_t> hidden_index;
  std::size_t at = kHeader + palette.size();
  while (byte_at(gif, at) == kExtension) {
    if (byte_at(gif, at + 1) == kGraphicControl) {
      hidden_index = (byte_at(gif, at + 3) & 1U) != 0 ? std::optional(byte_at(gif, at + 6)) : std::nullopt;
    }
    at = skip_blocks(gif, at + 2);
  }
  if (byte_at(gif, at) != kImage) {
    facts.ends_early = at >= gif.size();
    return facts;
  }
  const std::uint32_t flags = byte_at(gif, at + 9);
  if (table_bytes(flags) > 0) {
    palette = part(gif, at + 10, table_bytes(flags));
  }
  if (hidden_index) {
    facts.hidden_colour = big_endian(palette, std::size_t{3} * *hidden_index, 3);
  }
  at += 10 + table_bytes(flags);
  facts.ends_early = skip_blocks(gif, at + 1) > gif.size();
  return facts;
}

}  // namespace spdl
