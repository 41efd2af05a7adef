// Kernels that all tables share: compilers do well enough with them.

#pragma once

#include <cstdint>

namespace spdl::portable {

void rgb_to_ycbcr(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b, std::uint8_t* y,
                  std::uint8_t* cb, std::uint8_t* cr, int width);

}  // namespace spdl::portable
