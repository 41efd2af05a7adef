// Plain loops of fixed length, which compilers turn into whatever vectors the target has (SSE2, NEON).

#include "image/kernels_portable.h"

#include <algorithm>
#include <bit>

#include "image/filter_weights.h"
#include "image/kernels.h"

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

// The same with weights in two parts. Sums of one part may pass 32 bits, the total does not: what wraps, wraps back.
template <class InputAt>
void blend_block_exact(InputAt input_at, const std::int16_t* high, const std::int16_t* low, int num_taps,
                       std::uint8_t* out) noexcept {
  std::uint32_t highs[kStep] = {};
  std::uint32_t lows[kStep];
  std::fill_n(lows, kStep, 1U << (kExactWeightBits - 1));
  for (int k = 0; k < num_taps; ++k) {
    const std::uint8_t* input = input_at(k);
    const std::int16_t high_weight = high[k];
    const std::int16_t low_weight = low[k];
    for (int x = 0; x < kStep; ++x) {
      const auto sample = static_cast<std::int16_t>(input[x]);
      highs[x] += static_cast<std::uint32_t>(high_weight * sample);
      lows[x] += static_cast<std::uint32_t>(low_weight * sample);
    }
  }
  for (int x = 0; x < kStep; ++x) {
    out[x] = clamp8(static_cast<std::int32_t>((highs[x] << kLowBits) + lows[x]) >> kExactWeightBits);
  }
}

void blend_rows_exact(const std::uint8_t* const* rows, const std::int16_t* high, const std::int16_t* low, int num_taps,
                      std::uint8_t* out, int width) {
  for (int x = 0; x < width; x += kStep) {
    blend_block_exact([=](int k) { return rows[k] + x; }, high, low, num_taps, out + x);
  }
}

void blend_columns_exact(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* high,
                         const std::int16_t* low, int num_taps, int num_outputs, std::uint8_t* out) {
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* begin = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    blend_block_exact([=](int k) { return begin + k * kTileRows; }, high, low, num_taps, out);
    high += num_taps;
    low += num_taps;
    out += kTileRows;
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

void interleave4(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                 const std::uint8_t* fourth, std::uint8_t* out, int width) {
  for (int x = 0; x < width; ++x) {
    out[4 * x] = first[x];
    out[4 * x + 1] = second[x];
    out[4 * x + 2] = third[x];
    out[4 * x + 3] = fourth[x];
  }
}

void deinterleave(const std::uint8_t* packed, std::uint8_t* first, std::uint8_t* second, std::uint8_t* third,
                  int width) {
  for (int x = 0; x < width; ++x) {
    first[x] = packed[3 * x];
    second[x] = packed[3 * x + 1];
    third[x] = packed[3 * x + 2];
  }
}

// What F16C does, NaN included.
std::uint16_t to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // 2^16 and more become infinite. Where the exponent is rebased, rounding up may carry into it.
  const std::uint32_t normal = (std::min(magnitude, 0x47800000U) - 0x38000000U + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14 one half has the step of the subnormal numbers, so that adding it rounds.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  const std::uint32_t finite = magnitude < 0x38800000 ? subnormal : std::min(normal, 0x7c00U);
  return static_cast<std::uint16_t>((magnitude > 0x7f800000 ? nan : finite) | ((bits >> 16) & 0x8000));
}

std::uint16_t to_brain(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

template <auto Round, class Element>
void to_elements(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                 Element* out) {
  for (std::size_t begin = 0; begin < count; begin += kPeriod) {
    const std::size_t end = std::min(kPeriod, count - begin);
    for (std::size_t i = 0; i < end; ++i) {
      out[begin + i] = Round(static_cast<float>(levels[begin + i]) * factors[i] + summands[i]);
    }
  }
}

float as_it_is(float value) noexcept { return value; }

}  // namespace

namespace portable {

// Block by block, in two plain loops that compilers turn into vectors.
void swscale_to_rgb(const SwscaleColours& colours, const std::uint8_t* y, const std::uint8_t* u, const std::uint8_t* v,
                    std::uint8_t* r, std::uint8_t* g, std::uint8_t* b, int width) {
  const SwscaleColours c = colours;
  const auto added = [](SwscaleColours::Chroma by, int chroma) {
    return static_cast<std::int16_t>(by.origin + chroma * by.whole + ((chroma * by.fraction) >> 16));
  };
  const auto level = [&](int n) { return clamp8(n + c.whole + ((n * c.fraction + c.rest) >> 16)); };
  for (int begin = 0; begin < width; begin += kBlock) {
    std::int16_t red[kBlock];
    std::int16_t green[kBlock];
    std::int16_t blue[kBlock];
    const int count = std::min(kBlock, width - begin);
    for (int i = 0; i < (count + 1) / 2; ++i) {
      const int from_u = u[begin / 2 + i];
      const int from_v = v[begin / 2 + i];
      red[2 * i] = red[2 * i + 1] = added(c.v_to_r, from_v);
      green[2 * i] = green[2 * i + 1] = static_cast<std::int16_t>(added(c.u_to_g, from_u) + added(c.v_to_g, from_v));
      blue[2 * i] = blue[2 * i + 1] = added(c.u_to_b, from_u);
    }
    for (int i = 0; i < count; ++i) {
      const int luma = y[begin + i];
      r[begin + i] = level(luma + red[i]);
      g[begin + i] = level(luma + green[i]);
      b[begin + i] = level(luma + blue[i]);
    }
  }
}

// ITU-T T.871 section 7, in multiples of 2^-16, as libjpeg computes it (jccolor.c): a chroma of 255.5 stays below 256.
void rgb_to_ycbcr(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b, std::uint8_t* y,
                  std::uint8_t* cb, std::uint8_t* cr, int width) {
  constexpr int half = 1 << 15;
  constexpr int center = (128 << 16) + half - 1;
  for (int x = 0; x < width; ++x) {
    const int red = r[x];
    const int green = g[x];
    const int blue = b[x];
    y[x] = static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + half) >> 16);
    cb[x] = static_cast<std::uint8_t>((-11059 * red - 21709 * green + 32768 * blue + center) >> 16);
    cr[x] = static_cast<std::uint8_t>((32768 * red - 27439 * green - 5329 * blue + center) >> 16);
  }
}

}  // namespace portable

const Kernels kPortableKernels = {
    "portable",
    blend_rows,
    rows_to_columns,
    blend_columns,
    columns_to_rows,
    blend_rows_exact,
    blend_columns_exact,
    ycbcr_to_rgb,
    portable::swscale_to_rgb,
    portable::rgb_to_ycbcr,
    interleave,
    interleave4,
    deinterleave,
    to_elements<as_it_is, float>,
    to_elements<to_half, std::uint16_t>,
    to_elements<to_brain, std::uint16_t>,
};

}  // namespace spdl
