#include "image/gif.h"

#include <algorithm>

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

GifFacts inspect_gif(Bytes gif) noexcept {
  constexpr std::size_t kHeader = 13;
  constexpr std::size_t kDescriptor = 10;
  GifFacts facts;
  facts.palette = part(gif, kHeader, table_bytes(byte_at(gif, 10)));
  facts.has_aspect = byte_at(gif, 12) != 0;
  std::size_t at = kHeader + facts.palette.size();
  while (byte_at(gif, at) == kExtension) {
    if (byte_at(gif, at + 1) == kGraphicControl) {
      facts.hidden_index = (byte_at(gif, at + 3) & 1U) != 0 ? std::optional(byte_at(gif, at + 6)) : std::nullopt;
    }
    at = skip_blocks(gif, at + 2);
  }
  if (byte_at(gif, at) != kImage) {
    facts.ends_early = at >= gif.size();
    return facts;
  }
  const std::uint32_t flags = byte_at(gif, at + 9);
  if (table_bytes(flags) > 0) {
    facts.palette = part(gif, at + kDescriptor, table_bytes(flags));
  }
  if (facts.hidden_index) {
    facts.hidden_colour = big_endian(facts.palette, std::size_t{3} * *facts.hidden_index, 3);
  }
  facts.width = static_cast<int>(little_endian(gif, at + 5, 2));
  facts.height = static_cast<int>(little_endian(gif, at + 7, 2));
  facts.covers_screen = little_endian(gif, at + 1, 4) == 0 && little_endian(gif, at + 5, 4) == little_endian(gif, 6, 4);
  facts.is_interlaced = (flags & 0x40U) != 0;
  at += kDescriptor + table_bytes(flags);
  facts.bits = static_cast<int>(byte_at(gif, at));
  facts.blocks_at = at + 1;
  facts.ends_early = skip_blocks(gif, facts.blocks_at) > gif.size();
  return facts;
}

std::size_t join_gif_blocks(Bytes gif, std::size_t at, std::uint8_t* to) noexcept {
  std::size_t size = 0;
  for (std::uint32_t length = byte_at(gif, at); length > 0; length = byte_at(gif, at)) {
    const Bytes block = part(gif, at + 1, length);
    std::copy(block.begin(), block.end(), to + size);
    size += block.size();
    at += 1 + length;
  }
  return size;
}

}  // namespace spdl
