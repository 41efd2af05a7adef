#include "image/kernels.h"

#include <algorithm>
#include <cstddef>
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

TEST_CASE("every instruction set converts planes as libswscale's tables do") {
  const auto floor_16 = [](int number) { return number >> 16; };
  // Limited range and full range; BT.601 and wider.
  const SwscaleColours all[] = {
      {{-204, 2, -26900}, {50, 0, -25675}, {104, -1, 12000}, {-258, 2, 1130}, 10773, 21234, -21},
      {{-240, 2, -8192}, {40, 0, -20480}, {91, -1, 18944}, {-232, 2, -12288}, 0, -32768, 1},
  };
  for (const std::string_view name : {"portable", "neon", "avx2", "avx512"}) {
    const Kernels* kernels = find_kernels(name);
    if (kernels == nullptr) {
      continue;
    }
    for (const SwscaleColours& colours : all) {
      const auto added = [&](SwscaleColours::Chroma by, int chroma) {
        return by.origin + chroma * by.whole + floor_16(chroma * by.fraction);
      };
      const auto level = [&](int n) {
        return std::clamp(n + colours.whole + floor_16(n * colours.fraction + colours.rest), 0, 255);
      };
      for (int turn = 0; turn < 256; ++turn) {
        const int width = turn == 0 ? 256 : turn;
        std::vector<std::uint8_t> y(padded(width));
        std::vector<std::uint8_t> u(padded(width));
        std::vector<std::uint8_t> v(padded(width));
        for (std::size_t i = 0; i < y.size(); ++i) {
          y[i] = static_cast<std::uint8_t>(turn % 2 == 0 ? i : i * 91);
          u[i] = static_cast<std::uint8_t>(turn + static_cast<int>(i) * 57);
          v[i] = static_cast<std::uint8_t>(turn * 3 + static_cast<int>(i) * 173);
        }
        std::vector<std::uint8_t> planes[3];
        for (auto& plane : planes) {
          plane.resize(padded(width));
        }
        kernels->swscale_to_rgb(colours, y.data(), u.data(), v.data(), planes[0].data(), planes[1].data(),
                                planes[2].data(), width);
        for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
          REQUIRE(planes[0][i] == level(y[i] + added(colours.v_to_r, v[i / 2])));
          REQUIRE(planes[1][i] == level(y[i] + added(colours.u_to_g, u[i / 2]) + added(colours.v_to_g, v[i / 2])));
          REQUIRE(planes[2][i] == level(y[i] + added(colours.u_to_b, u[i / 2])));
        }
      }
    }
  }
}

}  // namespace spdl
