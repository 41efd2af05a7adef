// PNG whose pixels are stored: a PNG with the same chunks before and behind them, in the memory that was given.

#include <algorithm>
#include <cstdlib>

#include "fuzz/target.h"
#include "media/stored_png.h"

void fuzz(std::span<const std::uint8_t> data) {
  constexpr std::size_t kMost = std::size_t{1} << 24;  // not a matter of memory
  if (spdl::filtered_bytes(data) > kMost) {
    return;
  }
  spdl::Buffer memory;
  const auto stored = spdl::with_stored_pixels(data, memory, 64);
  if (!stored) {
    return;
  }
  constexpr std::size_t kSmallest = 8 + 25 + 12;
  if (stored->size() < kSmallest + spdl::filtered_bytes(data) || !std::equal(data.begin(), data.begin() + 33, stored->begin())) {
    std::abort();
  }
  spdl::fuzz_touch({stored->data(), stored->size() + 64});
}
