// The two sums with AVX-512 (BW, VL, VBMI, VNNI: Ice Lake, Zen 4 and later). One permutation of bytes puts the samples of
// two taps side by side and widens them, and one instruction multiplies and adds: 5 instructions for what takes AVX2 14.
// Compiled with those extensions, so nothing here may be inlined elsewhere: no standard library beyond plain types.

#include <immintrin.h>

#include "image/kernels.h"
#include "image/kernels_avx2.h"
#include "image/taps.h"

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

void store_bytes(std::uint8_t* to, __m512i sums) noexcept {
  const __m512i positive = _mm512_max_epi32(_mm512_srai_epi32(sums, kWeightBits), _mm512_setzero_si512());
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
      store_bytes(out + x + 16 * part, sums[part]);
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
    store_bytes(out, upper_sums);
    store_bytes(out + 16, lower_sums);
    weights += num_taps;
    out += kTileRows;
  }
}

}  // namespace

const Kernels kAvx512Kernels = {
    "avx512",
    blend_rows,
    avx2::rows_to_columns,
    blend_columns,
    avx2::columns_to_rows,
    avx2::ycbcr_to_rgb,
    avx2::interleave,
};

}  // namespace spdl
