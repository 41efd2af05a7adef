// What the headers of a GIF say about its first picture (GIF89a, sections 15 to 23).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "image/bytes.h"

namespace spdl {

struct GifFacts {
  bool ends_early = false;                       // the first picture is not all there
  std::optional<std::uint32_t> hidden_colour;    // 0xRRGGBB, the palette's colour of its transparent pixels

  // The rest is set only for complete pictures that cover the screen.
  bool covers_screen = false;
  int width = 0;
  int height = 0;
  bool is_interlaced = false;
  bool has_aspect = false;  // pixels that need not be square
  std::optional<std::uint32_t> hidden_index;
  Bytes palette;  // red, green and blue
  int bits = 0;   // of an index, for LZW
  std::size_t blocks_at = 0;
};

GifFacts inspect_gif(Bytes gif) noexcept;

// Copies the data of the blocks that start at `at` to `to`, which has room for all of `gif` from there on. Returns the size.
std::size_t join_gif_blocks(Bytes gif, std::size_t at, std::uint8_t* to) noexcept;

}  // namespace spdl
