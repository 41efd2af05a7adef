// Blocks of GIF files: whatever they are, the colour that is hidden has 24 bits.

#include <cstdlib>

#include "fuzz/target.h"
#include "image/gif.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::GifFacts facts = spdl::inspect_gif(data);
  if (facts.hidden_colour.value_or(0) > 0xffffff) {
    std::abort();
  }
}
