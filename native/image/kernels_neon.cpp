// Every 64-bit ARM processor has NEON, so that these kernels are chosen when compiling. Compiled with
// -ffp-contract=off, as GCC makes one operation of vmulq_f32 and vaddq_f32 otherwise, which rounds once.

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "image/filter_weights.h"
#include "image/kernels.h"
#include "image/kernels_portable.h"

namespace spdl {
namespace {

constexpr int kStep = 32;

// 16 bytes, widened.
struct Words {
  int16x8_t part[2];

  explicit Words(uint8x16_t bytes) noexcept {
    part[0] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
    part[1] = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
  }
};

// 16 sums of 32 bits. What wraps, wraps back.
struct Sums {
  int32x4_t part[4];

  explicit Sums(int initial) noexcept {
    for (auto& sums : part) {
      sums = vdupq_n_s32(initial);
    }
  }

  void add(const Words& words, std::int16_t weight) noexcept {
    for (int i = 0; i < 2; ++i) {
      part[2 * i] = vmlal_n_s16(part[2 * i], vget_low_s16(words.part[i]), weight);
      part[2 * i + 1] = vmlal_high_n_s16(part[2 * i + 1], words.part[i], weight);
    }
  }

  void add_high(const Sums& high) noexcept {
    for (int i = 0; i < 4; ++i) {
      part[i] = vaddq_s32(part[i], vshlq_n_s32(high.part[i], kLowBits));
    }
  }

  // Narrowing shifts go to 16 bits at most, so that one is made of two. Both clamp, the first of them at 0.
  template <int kBits>
  uint8x16_t bytes() const noexcept {
    constexpr int first = kBits < 16 ? kBits : 16;
    const uint16x8_t low = vqshrun_high_n_s32(vqshrun_n_s32(part[0], first), part[1], first);
    const uint16x8_t high = vqshrun_high_n_s32(vqshrun_n_s32(part[2], first), part[3], first);
    if constexpr (kBits == first) {
      return vqmovn_high_u16(vqmovn_u16(low), high);
    } else {
      return vqshrn_high_n_u16(vqshrn_n_u16(low, kBits - first), high, kBits - first);
    }
  }
};

// kStep weighted sums.
template <class InputAt>
void blend_block(InputAt input_at, const std::int16_t* weights, int num_taps, std::uint8_t* out) noexcept {
  Sums left(1 << (kWeightBits - 1));
  Sums right(1 << (kWeightBits - 1));
  for (int k = 0; k < num_taps; ++k) {
    const std::uint8_t* input = input_at(k);
    left.add(Words(vld1q_u8(input)), weights[k]);
    right.add(Words(vld1q_u8(input + 16)), weights[k]);
  }
  vst1q_u8(out, left.bytes<kWeightBits>());
  vst1q_u8(out + 16, right.bytes<kWeightBits>());
}

// The same with weights in two parts.
template <class InputAt>
void blend_block_exact(InputAt input_at, const std::int16_t* high, const std::int16_t* low, int num_taps,
                       std::uint8_t* out) noexcept {
  Sums left_highs(0);
  Sums right_highs(0);
  Sums left(1 << (kExactWeightBits - 1));
  Sums right(1 << (kExactWeightBits - 1));
  for (int k = 0; k < num_taps; ++k) {
    const std::uint8_t* input = input_at(k);
    const Words left_words(vld1q_u8(input));
    const Words right_words(vld1q_u8(input + 16));
    left_highs.add(left_words, high[k]);
    right_highs.add(right_words, high[k]);
    left.add(left_words, low[k]);
    right.add(right_words, low[k]);
  }
  left.add_high(left_highs);
  right.add_high(right_highs);
  vst1q_u8(out, left.bytes<kExactWeightBits>());
  vst1q_u8(out + 16, right.bytes<kExactWeightBits>());
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int num_taps, std::uint8_t* out,
                int width) {
  for (int x = 0; x < width; x += kStep) {
    blend_block([=](int k) { return rows[k] + x; }, weights, num_taps, out + x);
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

// 16x16 bytes from rows to columns: after four rounds of interleaving row i with row i + 8, byte j of row i has become
// byte i of row j.
void transpose(const std::uint8_t* from, std::size_t from_stride, std::uint8_t* to, std::size_t to_stride) noexcept {
  uint8x16_t rows[16];
  for (std::size_t i = 0; i < 16; ++i) {
    rows[i] = vld1q_u8(from + i * from_stride);
  }
  for (int round = 0; round < 4; ++round) {
    uint8x16_t next[16];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = vzip1q_u8(rows[i], rows[i + 8]);
      next[2 * i + 1] = vzip2q_u8(rows[i], rows[i + 8]);
    }
    for (int i = 0; i < 16; ++i) {
      rows[i] = next[i];
    }
  }
  for (std::size_t i = 0; i < 16; ++i) {
    vst1q_u8(to + i * to_stride, rows[i]);
  }
}

void rows_to_columns(const std::uint8_t* rows, std::size_t stride, int width, std::uint8_t* columns) {
  for (int x = 0; x < width; x += 16) {
    std::uint8_t* to = columns + static_cast<std::ptrdiff_t>(x) * kTileRows;
    transpose(rows + x, stride, to, kTileRows);
    transpose(rows + x + 16 * stride, stride, to + 16, kTileRows);
  }
}

void columns_to_rows(const std::uint8_t* columns, int width, std::uint8_t* rows, std::size_t stride) {
  for (int x = 0; x < width; x += 16) {
    const std::uint8_t* from = columns + static_cast<std::ptrdiff_t>(x) * kTileRows;
    transpose(from, kTileRows, rows + x, stride);
    transpose(from + 16, kTileRows, rows + x + 16 * stride, stride);
  }
}

int16x8_t centered(const std::uint8_t* chroma) noexcept {
  return vreinterpretq_s16_u16(vsubl_u8(vld1_u8(chroma), vdup_n_u8(128)));
}

// luma + difference, clamped.
uint8x8_t add_luma(int16x8_t difference, uint8x8_t luma) noexcept {
  return vqmovun_s16(vreinterpretq_s16_u16(vaddw_u8(vreinterpretq_u16_s16(difference), luma)));
}

void ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* r,
                  std::uint8_t* g, std::uint8_t* b, int width) {
  for (int x = 0; x < width; x += 8) {
    const uint8x8_t luma = vld1_u8(y + x);
    const int16x8_t blue = centered(cb + x);
    const int16x8_t red = centered(cr + x);
    const int16x8_t from_red = vaddq_s16(red, vqrdmulhq_n_s16(red, kCrToR));
    const int16x8_t from_blue = vaddq_s16(vaddq_s16(blue, blue), vqrdmulhq_n_s16(blue, kCbToB));
    // Both chroma in one sum, so that green is rounded once.
    const int32x4_t low = vmlal_n_s16(vmull_n_s16(vget_low_s16(blue), kCbToG), vget_low_s16(red), kCrToG);
    const int32x4_t high = vmlal_high_n_s16(vmull_high_n_s16(blue, kCbToG), red, kCrToG);
    const int16x8_t from_both = vrshrn_high_n_s32(vrshrn_n_s32(low, 15), high, 15);
    vst1_u8(r + x, add_luma(from_red, luma));
    vst1_u8(g + x, add_luma(from_both, luma));
    vst1_u8(b + x, add_luma(from_blue, luma));
  }
}

void interleave(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third, std::uint8_t* out,
                int width) {
  for (int x = 0; x < width; x += 16) {
    const uint8x16x3_t planes = {{vld1q_u8(first + x), vld1q_u8(second + x), vld1q_u8(third + x)}};
    vst3q_u8(out + 3 * x, planes);
  }
}

void interleave4(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                 const std::uint8_t* fourth, std::uint8_t* out, int width) {
  for (int x = 0; x < width; x += 16) {
    const uint8x16x4_t planes = {
        {vld1q_u8(first + x), vld1q_u8(second + x), vld1q_u8(third + x), vld1q_u8(fourth + x)}};
    vst4q_u8(out + 4 * x, planes);
  }
}

void deinterleave(const std::uint8_t* packed, std::uint8_t* first, std::uint8_t* second, std::uint8_t* third,
                  int width) {
  for (int x = 0; x < width; x += 16) {
    const uint8x16x3_t planes = vld3q_u8(packed + 3 * x);
    vst1q_u8(first + x, planes.val[0]);
    vst1q_u8(second + x, planes.val[1]);
    vst1q_u8(third + x, planes.val[2]);
  }
}

// The half types differ by their tag alone.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

void store_elements(float* to, float32x4_t low, float32x4_t high) noexcept {
  vst1q_f32(to, low);
  vst1q_f32(to + 4, high);
}

void store_elements(Half* to, float32x4_t low, float32x4_t high) noexcept {
  vst1q_u16(&to->bits, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high)));
}

// To bfloat16, in 32 bits each. Rounding by the parity of what stays; a NaN keeps its upper bits and becomes quiet.
uint32x4_t to_brain(float32x4_t values) noexcept {
  const uint32x4_t bits = vreinterpretq_u32_f32(values);
  const uint32x4_t upper = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
  const uint32x4_t nan = vorrq_u32(upper, vdupq_n_u32(0x40));
  return vbslq_u32(vceqq_f32(values, values), rounded, nan);
}

void store_elements(Brain* to, float32x4_t low, float32x4_t high) noexcept {
  vst1q_u16(&to->bits, vmovn_high_u32(vmovn_u32(to_brain(low)), to_brain(high)));
}

// Four elements: multiplied, then added to.
float32x4_t scale(uint16x4_t levels, const float* factors, const float* summands) noexcept {
  const float32x4_t product = vmulq_f32(vcvtq_f32_u32(vmovl_u16(levels)), vld1q_f32(factors));
  return vaddq_f32(product, vld1q_f32(summands));
}

// Eight elements.
template <class Element>
void to_eight(const std::uint8_t* levels, const float* factors, const float* summands, Element* out) noexcept {
  const uint16x8_t words = vmovl_u8(vld1_u8(levels));
  store_elements(out, scale(vget_low_u16(words), factors, summands),
                 scale(vget_high_u16(words), factors + 4, summands + 4));
}

template <class Element>
void to_elements(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                 Element* out) noexcept {
  constexpr std::size_t kLanes = 8;
  static_assert(kPeriod % kLanes == 0);
  std::size_t phase = 0;
  for (; count >= kLanes; count -= kLanes) {
    to_eight(levels, factors + phase, summands + phase, out);
    levels += kLanes;
    out += kLanes;
    phase = phase + kLanes == kPeriod ? 0 : phase + kLanes;
  }
  std::uint8_t last_levels[kLanes] = {};
  Element last[kLanes];
  for (std::size_t i = 0; i < count; ++i) {
    last_levels[i] = levels[i];
  }
  to_eight(last_levels, factors + phase, summands + phase, last);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = last[i];
  }
}

void to_float32(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                float* out) {
  to_elements(levels, factors, summands, count, out);
}

void to_float16(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                std::uint16_t* out) {
  to_elements(levels, factors, summands, count, reinterpret_cast<Half*>(out));
}

void to_bfloat16(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                 std::uint16_t* out) {
  to_elements(levels, factors, summands, count, reinterpret_cast<Brain*>(out));
}

}  // namespace

const Kernels kNeonKernels = {
    "neon",
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
    to_float32,
    to_float16,
    to_bfloat16,
};

}  // namespace spdl
