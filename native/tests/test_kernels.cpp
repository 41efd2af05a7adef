#include "image/kernels.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "image/picture.h"

namespace spdl {

TEST_CASE("every instruction set splits packed pixels into planes, and joins them again") {
  for (const std::string_view name : {"portable", "neon", "avx2", "avx512"}) {
    const Kernels* kernels = find_kernels(name);
    if (kernels == nullptr) {
      continue;
    }
    for (int width = 1; width < 70; ++width) {
      const auto pixels = static_cast<std::size_t>(width);
      std::vector<std::uint8_t> packed(3 * padded(width));
      for (std::size_t i = 0; i < 3 * pixels; ++i) {
        packed[i] = static_cast<std::uint8_t>(i * 7 + 1);
      }
      std::vector<std::uint8_t> planes[3];
      for (auto& plane : planes) {
        plane.resize(padded(width));
      }
      kernels->deinterleave(packed.data(), planes[0].data(), planes[1].data(), planes[2].data(), width);
      std::vector<std::uint8_t> joined(3 * padded(width));
      kernels->interleave(planes[0].data(), planes[1].data(), planes[2].data(), joined.data(), width);
      for (std::size_t i = 0; i < 3 * pixels; ++i) {
        REQUIRE(planes[i % 3][i / 3] == packed[i]);
        REQUIRE(joined[i] == packed[i]);
      }
    }
  }
}

}  // namespace spdl
