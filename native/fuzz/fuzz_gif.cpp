// Blocks of GIF files: whatever they are, the colour that is hidden has 24 bits, and what is unpacked lies in its memory.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "image/gif.h"
#include "image/lzw.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::GifFacts facts = spdl::inspect_gif(data);
  if (facts.hidden_colour.value_or(0) > 0xffffff) {
    std::abort();
  }
  std::vector<std::uint8_t> codes(data.size());
  codes.resize(spdl::join_gif_blocks(data, facts.blocks_at, codes.data()));
  constexpr std::size_t kMost = std::size_t{1} << 20;  // not a matter of memory
  const std::size_t size = static_cast<std::size_t>(facts.width) * static_cast<std::size_t>(facts.height);
  std::vector<std::uint8_t> out(std::min(size, kMost));
  for (const spdl::LzwKind kind : {spdl::LzwKind::kGif, spdl::LzwKind::kTiff}) {
    if (spdl::unpack_lzw(codes, kind, facts.bits, out)) {
      spdl::fuzz_touch(out);
    }
  }
}
