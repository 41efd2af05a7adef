// Kernels that all tables share, because compilers generate good code for them.

#pragma once

#include <cstdint>

#include "image/kernels.h"

namespace spdl::portable {

void swscale_to_rgb(const SwscaleColours& colours, const std::uint8_t* y, const std::uint8_t* u, const std::uint8_t* v,
                    std::uint8_t* r, std::uint8_t* g, std::uint8_t* b, int width);

void rgb_to_ycbcr(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b, std::uint8_t* y,
                  std::uint8_t* cb, std::uint8_t* cr, int width);

}  // namespace spdl::portable
