// The sums with AVX-512 (BW, VL, VBMI, VNNI: Ice Lake, Zen 4 and later). One permutation of bytes puts the samples of
// two taps side by side and widens them, and one instruction multiplies and adds: 5 instructions for what takes AVX2
// 14. Compiled with those extensions, so nothing here may be inlined elsewhere: no standard library beyond plain types.

#include <immintrin.h>

#include "image/filter_weights.h"
#include "image/kernels.h"
#include "image/kernels_avx2.h"
#include "image/kernels_portable.h"

namespace spdl {
namespace {

constexpr int kStep = 64;
// Every second byte of the widened pairs is zero.
constexpr __mmask64 kEvenBytes = 0x5555555555555555;

__m512i load(const std::uint8_t* from) noexcept { return _mm512_loadu_si512(from); }

__m512i weight_pair(const std::int16_t* weights) noexcept {
  return _mm512_broadcastd_epi32(_mm_loadu_si32(weights));
}

// 16 pairs: sample `begin` + i of the first 64 bytes in front of sample `begin` + `distance` + i.
__m512i pair_order(int begin, int distance) noexcept {
  alignas(64) std::uint8_t order[64];
  for (int i = 0; i < 16; ++i) {
    order[4 * i] = static_cast<std::uint8_t>(begin + i);
    order[4 * i + 1] = 0;
    order[4 * i + 2] = static_cast<std::uint8_t>(begin + distance + i);
    order[4 * i + 3] = 0;
  }
  return _mm512_load_si512(order);
}

template <int kBits>
void store_bytes(std::uint8_t* to, __m512i sums) noexcept {
  const __m512i positive = _mm512_max_epi32(_mm512_srai_epi32(sums, kBits), _mm512_setzero_si512());
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtusepi32_epi8(positive));
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int num_taps, std::uint8_t* out,
                int width) {
  const __m512i orders[4] = {pair_order(0, 64), pair_order(16, 64), pair_order(32, 64), pair_order(48, 64)};
  for (int x = 0; x < width; x += kStep) {
    __m512i sums[4];
    for (auto& sum : sums) {
      sum = _mm512_set1_epi32(1 << (kWeightBits - 1));
    }
    for (int k = 0; k < num_taps; k += 2) {
      const __m512i first = load(rows[k] + x);
      const __m512i second = load(rows[k + 1] + x);
      const __m512i weight = weight_pair(weights + k);
      for (int part = 0; part < 4; ++part) {
        const __m512i pairs = _mm512_maskz_permutex2var_epi8(kEvenBytes, first, orders[part], second);
        sums[part] = _mm512_dpwssd_epi32(sums[part], pairs, weight);
      }
    }
    for (int part = 0; part < 4; ++part) {
      store_bytes<kWeightBits>(out + x + 16 * part, sums[part]);
    }
  }
}

void blend_columns(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* weights, int num_taps,
                   int num_outputs, std::uint8_t* out) {
  // Two adjacent columns are one register.
  static_assert(2 * kTileRows == 64);
  const __m512i upper = pair_order(0, 32);
  const __m512i lower = pair_order(16, 32);
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* column = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    __m512i upper_sums = _mm512_set1_epi32(1 << (kWeightBits - 1));
    __m512i lower_sums = upper_sums;
    for (int k = 0; k < num_taps; k += 2) {
      const __m512i two = load(column);
      const __m512i weight = weight_pair(weights + k);
      upper_sums = _mm512_dpwssd_epi32(upper_sums, _mm512_maskz_permutexvar_epi8(kEvenBytes, upper, two), weight);
      lower_sums = _mm512_dpwssd_epi32(lower_sums, _mm512_maskz_permutexvar_epi8(kEvenBytes, lower, two), weight);
      column += std::ptrdiff_t{2} * kTileRows;
    }
    store_bytes<kWeightBits>(out, upper_sums);
    store_bytes<kWeightBits>(out + 16, lower_sums);
    weights += num_taps;
    out += kTileRows;
  }
}

void store_exact(std::uint8_t* to, __m512i highs, __m512i lows) noexcept {
  store_bytes<kExactWeightBits>(to, _mm512_add_epi32(_mm512_slli_epi32(highs, kLowBits), lows));
}

void blend_rows_exact(const std::uint8_t* const* rows, const std::int16_t* high, const std::int16_t* low, int num_taps,
                      std::uint8_t* out, int width) {
  const __m512i orders[4] = {pair_order(0, 64), pair_order(16, 64), pair_order(32, 64), pair_order(48, 64)};
  for (int x = 0; x < width; x += kStep) {
    __m512i highs[4];
    __m512i lows[4];
    for (int part = 0; part < 4; ++part) {
      highs[part] = _mm512_setzero_si512();
      lows[part] = _mm512_set1_epi32(1 << (kExactWeightBits - 1));
    }
    for (int k = 0; k < num_taps; k += 2) {
      const __m512i first = load(rows[k] + x);
      const __m512i second = load(rows[k + 1] + x);
      const __m512i high_weight = weight_pair(high + k);
      const __m512i low_weight = weight_pair(low + k);
      for (int part = 0; part < 4; ++part) {
        const __m512i pairs = _mm512_maskz_permutex2var_epi8(kEvenBytes, first, orders[part], second);
        highs[part] = _mm512_dpwssd_epi32(highs[part], pairs, high_weight);
        lows[part] = _mm512_dpwssd_epi32(lows[part], pairs, low_weight);
      }
    }
    for (int part = 0; part < 4; ++part) {
      store_exact(out + x + 16 * part, highs[part], lows[part]);
    }
  }
}

void blend_columns_exact(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* high,
                         const std::int16_t* low, int num_taps, int num_outputs, std::uint8_t* out) {
  const __m512i orders[2] = {pair_order(0, 32), pair_order(16, 32)};
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* column = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    __m512i highs[2];
    __m512i lows[2];
    for (int part = 0; part < 2; ++part) {
      highs[part] = _mm512_setzero_si512();
      lows[part] = _mm512_set1_epi32(1 << (kExactWeightBits - 1));
    }
    for (int k = 0; k < num_taps; k += 2) {
      const __m512i two = load(column);
      const __m512i high_weight = weight_pair(high + k);
      const __m512i low_weight = weight_pair(low + k);
      for (int part = 0; part < 2; ++part) {
        const __m512i pairs = _mm512_maskz_permutexvar_epi8(kEvenBytes, orders[part], two);
        highs[part] = _mm512_dpwssd_epi32(highs[part], pairs, high_weight);
        lows[part] = _mm512_dpwssd_epi32(lows[part], pairs, low_weight);
      }
      column += std::ptrdiff_t{2} * kTileRows;
    }
    for (int part = 0; part < 2; ++part) {
      store_exact(out + 16 * part, highs[part], lows[part]);
    }
    high += num_taps;
    low += num_taps;
    out += kTileRows;
  }
}

// 16 elements, multiplied, then added to. Levels that are masked away are not read.
__m512 scale(__mmask16 mask, const std::uint8_t* levels, const float* factors, const float* summands) noexcept {
  const __m512 values = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, levels)));
  return _mm512_add_ps(_mm512_mul_ps(values, _mm512_loadu_ps(factors)), _mm512_loadu_ps(summands));
}

void store_float32(float* to, __mmask16 mask, __m512 values) noexcept { _mm512_mask_storeu_ps(to, mask, values); }

void store_float16(std::uint16_t* to, __mmask16 mask, __m512 values) noexcept {
  const __m256i halves = _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_mask_storeu_epi16(to, mask, halves);
}

// Not AVX512_BF16's instruction, which makes small numbers zero.
void store_bfloat16(std::uint16_t* to, __mmask16 mask, __m512 values) noexcept {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i words = _mm512_mask_or_epi32(rounded, is_nan, upper, _mm512_set1_epi32(0x40));
  _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(words));
}

template <auto kStore, class Element>
void to_elements(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                 Element* out) {
  constexpr std::size_t kLanes = 16;
  static_assert(kPeriod % kLanes == 0);
  std::size_t phase = 0;
  for (; count >= kLanes; count -= kLanes) {
    kStore(out, 0xffff, scale(0xffff, levels, factors + phase, summands + phase));
    levels += kLanes;
    out += kLanes;
    phase = phase + kLanes == kPeriod ? 0 : phase + kLanes;
  }
  const auto mask = static_cast<__mmask16>((1U << count) - 1);
  kStore(out, mask, scale(mask, levels, factors + phase, summands + phase));
}

}  // namespace

const Kernels kAvx512Kernels = {
    "avx512",
    blend_rows,
    avx2::rows_to_columns,
    blend_columns,
    avx2::columns_to_rows,
    blend_rows_exact,
    blend_columns_exact,
    avx2::ycbcr_to_rgb,
    avx2::swscale_to_rgb,
    portable::rgb_to_ycbcr,
    avx2::interleave,
    avx2::interleave4,
    avx2::deinterleave,
    to_elements<store_float32, float>,
    to_elements<store_float16, std::uint16_t>,
    to_elements<store_bfloat16, std::uint16_t>,
};

}  // namespace spdl
