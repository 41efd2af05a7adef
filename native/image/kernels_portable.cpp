// Plain loops of fixed length, which compilers turn into whatever vectors the target has (SSE2, NEON).

#include <algorithm>

#include "image/kernels.h"
#include "image/taps.h"

namespace spdl {
namespace {

constexpr int kStep = 32;

std::uint8_t clamp8(int value) noexcept { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

// kStep weighted sums.
template <class InputAt>
void blend_block(InputAt input_at, const std::int16_t* weights, int num_taps, std::uint8_t* out) noexcept {
  std::int32_t sums[kStep];
  std::fill_n(sums, kStep, 1 << (kWeightBits - 1));
  for (int k = 0; k < num_taps; ++k) {
    const std::uint8_t* input = input_at(k);
    const std::int16_t weight = weights[k];
    for (int x = 0; x < kStep; ++x) {
      sums[x] += weight * static_cast<std::int16_t>(input[x]);
    }
  }
  for (int x = 0; x < kStep; ++x) {
    out[x] = clamp8(sums[x] >> kWeightBits);
  }
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int num_taps, std::uint8_t* out,
                int width) {
  for (int x = 0; x < width; x += kStep) {
    blend_block([=](int k) { return rows[k] + x; }, weights, num_taps, out + x);
  }
}

void rows_to_columns(const std::uint8_t* rows, std::size_t stride, int width, std::uint8_t* columns) {
  for (int x = 0; x < width; ++x) {
    for (int y = 0; y < kTileRows; ++y) {
      columns[x * kTileRows + y] = rows[static_cast<std::size_t>(y) * stride + static_cast<std::size_t>(x)];
    }
  }
}

void blend_columns(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* weights, int num_taps,
                   int num_outputs, std::uint8_t* out) {
  static_assert(kTileRows == kStep);
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* begin = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    blend_block([=](int k) { return begin + k * kTileRows; }, weights, num_taps, out);
    weights += num_taps;
    out += kTileRows;
  }
}

void columns_to_rows(const std::uint8_t* columns, int width, std::uint8_t* rows, std::size_t stride) {
  for (int y = 0; y < kTileRows; ++y) {
    std::uint8_t* row = rows + static_cast<std::size_t>(y) * stride;
    for (int x = 0; x < width; ++x) {
      row[x] = columns[x * kTileRows + y];
    }
  }
}

void ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* r,
                  std::uint8_t* g, std::uint8_t* b, int width) {
  constexpr int half = 1 << 14;
  for (int x = 0; x < width; ++x) {
    const int blue = cb[x] - 128;
    const int red = cr[x] - 128;
    r[x] = clamp8(y[x] + red + ((red * kCrToR + half) >> 15));
    g[x] = clamp8(y[x] + ((blue * kCbToG + red * kCrToG + half) >> 15));
    b[x] = clamp8(y[x] + 2 * blue + ((blue * kCbToB + half) >> 15));
  }
}

void interleave(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third, std::uint8_t* out,
                int width) {
  for (int x = 0; x < width; ++x) {
    out[3 * x] = first[x];
    out[3 * x + 1] = second[x];
    out[3 * x + 2] = third[x];
  }
}

}  // namespace

const Kernels kPortableKernels = {
    "portable", blend_rows, rows_to_columns, blend_columns, columns_to_rows, ycbcr_to_rgb, interleave,
};

}  // namespace spdl
