// Kernels that wider instruction sets take from AVX2: they move bytes, and memory sets their speed.

#pragma once

#include <cstddef>
#include <cstdint>

#include "image/kernels.h"

namespace spdl::avx2 {

void rows_to_columns(const std::uint8_t* rows, std::size_t stride, int width, std::uint8_t* columns);
void columns_to_rows(const std::uint8_t* columns, int width, std::uint8_t* rows, std::size_t stride);
void ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* r,
                  std::uint8_t* g, std::uint8_t* b, int width);
void swscale_to_rgb(const SwscaleColours& colours, const std::uint8_t* y, const std::uint8_t* u, const std::uint8_t* v,
                    std::uint8_t* r, std::uint8_t* g, std::uint8_t* b, int width);
void interleave(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third, std::uint8_t* out,
                int width);
void interleave4(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                 const std::uint8_t* fourth, std::uint8_t* out, int width);
void deinterleave(const std::uint8_t* packed, std::uint8_t* first, std::uint8_t* second, std::uint8_t* third,
                  int width);

}  // namespace spdl::avx2
