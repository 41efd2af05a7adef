// Compiled with -mavx2 -mf16c, so nothing here may be inlined elsewhere: no standard library beyond plain types.

#include <immintrin.h>

#include "image/filter_weights.h"
#include "image/kernels.h"
#include "image/kernels_avx2.h"
#include "image/kernels_portable.h"

namespace spdl {
namespace {

constexpr int kStep = 32;

__m256i load(const std::uint8_t* from) noexcept { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
void store(std::uint8_t* to, __m256i value) noexcept { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value); }
__m128i load16(const std::uint8_t* from) noexcept { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store16(std::uint8_t* to, __m128i value) noexcept { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value); }

// Two adjacent weights in each 32-bit lane, as the multiply-add wants them.
__m256i weight_pair(const std::int16_t* weights) noexcept {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(weights)));
}

// 32 samples of each of two taps, pair by pair in words.
struct Pairs {
  __m256i part[4];

  Pairs(__m256i even, __m256i odd) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi8(even, odd);
    const __m256i high = _mm256_unpackhi_epi8(even, odd);
    part[0] = _mm256_unpacklo_epi8(low, zero);
    part[1] = _mm256_unpackhi_epi8(low, zero);
    part[2] = _mm256_unpacklo_epi8(high, zero);
    part[3] = _mm256_unpackhi_epi8(high, zero);
  }
};

// 32 sums of 32 bits in the order in which unpacking leaves the bytes, which packing undoes.
struct Sums {
  __m256i part[4];

  explicit Sums(int initial) noexcept {
    for (auto& sums : part) {
      sums = _mm256_set1_epi32(initial);
    }
  }

  void add(const Pairs& pairs, __m256i weights) noexcept {
    for (int i = 0; i < 4; ++i) {
      part[i] = _mm256_add_epi32(part[i], _mm256_madd_epi16(pairs.part[i], weights));
    }
  }

  void add_high(const Sums& high) noexcept {
    for (int i = 0; i < 4; ++i) {
      part[i] = _mm256_add_epi32(part[i], _mm256_slli_epi32(high.part[i], kLowBits));
    }
  }

  template <int kBits>
  __m256i bytes() const noexcept {
    const __m256i low = _mm256_packs_epi32(_mm256_srai_epi32(part[0], kBits), _mm256_srai_epi32(part[1], kBits));
    const __m256i high = _mm256_packs_epi32(_mm256_srai_epi32(part[2], kBits), _mm256_srai_epi32(part[3], kBits));
    return _mm256_packus_epi16(low, high);
  }
};

// What 16 chromas add to luma.
__m256i added(SwscaleColours::Chroma by, __m256i chroma) noexcept {
  const __m256i product = _mm256_add_epi16(_mm256_mullo_epi16(chroma, _mm256_set1_epi16(by.whole)),
                                           _mm256_mulhi_epi16(chroma, _mm256_set1_epi16(by.fraction)));
  return _mm256_add_epi16(product, _mm256_set1_epi16(by.origin));
}

// 32 levels of a colour: `luma` in the order of pixels, `chroma` of 16 pairs of them.
class Levels {
 public:
  explicit Levels(const SwscaleColours& colours) noexcept
      : factors_(_mm256_set1_epi32((colours.rest * (1 << 16)) | (colours.fraction & 0xffff))),
        whole_(_mm256_set1_epi16(colours.whole)) {}

  void store(std::uint8_t* to, const __m256i (&luma)[2], __m256i chroma) const noexcept {
    // Each half of a register is doubled on its own, so the middle quarters change places before.
    const __m256i swapped = _mm256_permute4x64_epi64(chroma, 0xd8);
    const __m256i low = words(_mm256_add_epi16(luma[0], _mm256_unpacklo_epi16(swapped, swapped)));
    const __m256i high = words(_mm256_add_epi16(luma[1], _mm256_unpackhi_epi16(swapped, swapped)));
    spdl::store(to, _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xd8));
  }

 private:
  __m256i words(__m256i n) const noexcept {
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(n, one), factors_);
    const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(n, one), factors_);
    const __m256i part = _mm256_packs_epi32(_mm256_srai_epi32(low, 16), _mm256_srai_epi32(high, 16));
    return _mm256_add_epi16(_mm256_add_epi16(n, whole_), part);
  }

  __m256i factors_;  // of n and of one
  __m256i whole_;
};

__m128i narrow(__m256i words) noexcept {
  return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int num_taps, std::uint8_t* out,
                int width) {
  for (int x = 0; x < width; x += kStep) {
    Sums sums(1 << (kWeightBits - 1));
    for (int k = 0; k < num_taps; k += 2) {
      sums.add(Pairs(load(rows[k] + x), load(rows[k + 1] + x)), weight_pair(weights + k));
    }
    store(out + x, sums.bytes<kWeightBits>());
  }
}

void blend_columns(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* weights, int num_taps,
                   int num_outputs, std::uint8_t* out) {
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* column = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    Sums sums(1 << (kWeightBits - 1));
    for (int k = 0; k < num_taps; k += 2) {
      sums.add(Pairs(load(column), load(column + kTileRows)), weight_pair(weights + k));
      column += std::ptrdiff_t{2} * kTileRows;
    }
    store(out, sums.bytes<kWeightBits>());
    weights += num_taps;
    out += kTileRows;
  }
}

void blend_rows_exact(const std::uint8_t* const* rows, const std::int16_t* high, const std::int16_t* low, int num_taps,
                      std::uint8_t* out, int width) {
  for (int x = 0; x < width; x += kStep) {
    Sums highs(0);
    Sums lows(1 << (kExactWeightBits - 1));
    for (int k = 0; k < num_taps; k += 2) {
      const Pairs pairs(load(rows[k] + x), load(rows[k + 1] + x));
      highs.add(pairs, weight_pair(high + k));
      lows.add(pairs, weight_pair(low + k));
    }
    lows.add_high(highs);
    store(out + x, lows.bytes<kExactWeightBits>());
  }
}

void blend_columns_exact(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* high,
                         const std::int16_t* low, int num_taps, int num_outputs, std::uint8_t* out) {
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* column = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    Sums highs(0);
    Sums lows(1 << (kExactWeightBits - 1));
    for (int k = 0; k < num_taps; k += 2) {
      const Pairs pairs(load(column), load(column + kTileRows));
      highs.add(pairs, weight_pair(high + k));
      lows.add(pairs, weight_pair(low + k));
      column += std::ptrdiff_t{2} * kTileRows;
    }
    lows.add_high(highs);
    store(out, lows.bytes<kExactWeightBits>());
    high += num_taps;
    low += num_taps;
    out += kTileRows;
  }
}

// Transposes the 16x16 bytes of each half: after four rounds of interleaving row i with row i + 8, byte j of row i
// has become byte i of row j.
void transpose(__m256i (&rows)[16]) noexcept {
  for (int round = 0; round < 4; ++round) {
    __m256i next[16];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = _mm256_unpacklo_epi8(rows[i], rows[i + 8]);
      next[2 * i + 1] = _mm256_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    for (int i = 0; i < 16; ++i) {
      rows[i] = next[i];
    }
  }
}

// 8 elements: multiplied, then added to.
__m256 scale(const std::uint8_t* levels, const float* factors, const float* summands) noexcept {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(levels));
  const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_loadu_ps(factors));
  return _mm256_add_ps(product, _mm256_loadu_ps(summands));
}

void store_elements(float* to, __m256 values) noexcept { _mm256_storeu_ps(to, values); }

// The half types differ by their tag alone.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

void store_elements(Half* to, __m256 values) noexcept {
  const __m128i halves = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}

void store_elements(Brain* to, __m256 values) noexcept {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
  const __m256i words = _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(is_nan));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

template <class Element>
void to_elements(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                 Element* out) noexcept {
  constexpr std::size_t kLanes = 8;
  static_assert(kPeriod % kLanes == 0);
  std::size_t phase = 0;
  for (; count >= kLanes; count -= kLanes) {
    store_elements(out, scale(levels, factors + phase, summands + phase));
    levels += kLanes;
    out += kLanes;
    phase = phase + kLanes == kPeriod ? 0 : phase + kLanes;
  }
  std::uint8_t last_levels[kLanes] = {};
  Element last[kLanes];
  for (std::size_t i = 0; i < count; ++i) {
    last_levels[i] = levels[i];
  }
  store_elements(last, scale(last_levels, factors + phase, summands + phase));
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

namespace avx2 {

void rows_to_columns(const std::uint8_t* rows, std::size_t stride, int width, std::uint8_t* columns) {
  for (int x = 0; x < width; x += 16) {
    __m256i block[16];
    for (int i = 0; i < 16; ++i) {
      const std::uint8_t* row = rows + static_cast<std::size_t>(i) * stride + x;
      block[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(row)), load16(row + 16 * stride), 1);
    }
    transpose(block);
    for (int i = 0; i < 16; ++i) {
      store(columns + static_cast<std::ptrdiff_t>(x + i) * kTileRows, block[i]);
    }
  }
}

void columns_to_rows(const std::uint8_t* columns, int width, std::uint8_t* rows, std::size_t stride) {
  for (int x = 0; x < width; x += 16) {
    __m256i block[16];
    for (int i = 0; i < 16; ++i) {
      block[i] = load(columns + static_cast<std::ptrdiff_t>(x + i) * kTileRows);
    }
    transpose(block);
    for (int i = 0; i < 16; ++i) {
      std::uint8_t* row = rows + static_cast<std::size_t>(i) * stride + x;
      store16(row, _mm256_castsi256_si128(block[i]));
      store16(row + 16 * stride, _mm256_extracti128_si256(block[i], 1));
    }
  }
}

void ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* r,
                  std::uint8_t* g, std::uint8_t* b, int width) {
  const __m256i center = _mm256_set1_epi16(128);
  const __m256i half = _mm256_set1_epi32(1 << 14);
  const __m256i to_green = _mm256_set1_epi32((kCrToG * (1 << 16)) | (kCbToG & 0xffff));
  for (int x = 0; x < width; x += 16) {
    const __m256i luma = _mm256_cvtepu8_epi16(load16(y + x));
    const __m256i blue = _mm256_sub_epi16(_mm256_cvtepu8_epi16(load16(cb + x)), center);
    const __m256i red = _mm256_sub_epi16(_mm256_cvtepu8_epi16(load16(cr + x)), center);
    const __m256i from_red = _mm256_add_epi16(red, _mm256_mulhrs_epi16(red, _mm256_set1_epi16(kCrToR)));
    const __m256i from_blue =
        _mm256_add_epi16(_mm256_add_epi16(blue, blue), _mm256_mulhrs_epi16(blue, _mm256_set1_epi16(kCbToB)));
    // Both chroma in one sum, so that green is rounded once.
    const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(blue, red), to_green);
    const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(blue, red), to_green);
    const __m256i from_both = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 15),
                                                 _mm256_srai_epi32(_mm256_add_epi32(high, half), 15));
    store16(r + x, narrow(_mm256_add_epi16(luma, from_red)));
    store16(g + x, narrow(_mm256_add_epi16(luma, from_both)));
    store16(b + x, narrow(_mm256_add_epi16(luma, from_blue)));
  }
}

void swscale_to_rgb(const SwscaleColours& colours, const std::uint8_t* y, const std::uint8_t* u, const std::uint8_t* v,
                    std::uint8_t* r, std::uint8_t* g, std::uint8_t* b, int width) {
  const Levels levels(colours);
  for (int x = 0; x < width; x += kStep) {
    const __m256i luma[2] = {_mm256_cvtepu8_epi16(load16(y + x)), _mm256_cvtepu8_epi16(load16(y + x + 16))};
    const __m256i from_u = _mm256_cvtepu8_epi16(load16(u + x / 2));
    const __m256i from_v = _mm256_cvtepu8_epi16(load16(v + x / 2));
    levels.store(r + x, luma, added(colours.v_to_r, from_v));
    levels.store(g + x, luma, _mm256_add_epi16(added(colours.u_to_g, from_u), added(colours.v_to_g, from_v)));
    levels.store(b + x, luma, added(colours.u_to_b, from_u));
  }
}

void interleave(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third, std::uint8_t* out,
                int width) {
  // Byte j of the 48 is of plane j % 3 and pixel j / 3; -1 leaves a place for the other planes.
  const __m128i masks[3][3] = {
      {_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
       _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1),
       _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1)},
      {_mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
       _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
       _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1)},
      {_mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),
       _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1),
       _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)},
  };
  for (int x = 0; x < width; x += 16) {
    const __m128i a = load16(first + x);
    const __m128i b = load16(second + x);
    const __m128i c = load16(third + x);
    for (int part = 0; part < 3; ++part) {
      const __m128i mixed = _mm_or_si128(_mm_shuffle_epi8(a, masks[part][0]), _mm_shuffle_epi8(b, masks[part][1]));
      store16(out + 3 * x + 16 * part, _mm_or_si128(mixed, _mm_shuffle_epi8(c, masks[part][2])));
    }
  }
}

void interleave4(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                 const std::uint8_t* fourth, std::uint8_t* out, int width) {
  for (int x = 0; x < width; x += 16) {
    const __m128i a = load16(first + x);
    const __m128i b = load16(second + x);
    const __m128i c = load16(third + x);
    const __m128i d = load16(fourth + x);
    const __m128i ab[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
    const __m128i cd[2] = {_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)};
    for (int part = 0; part < 2; ++part) {
      store16(out + 4 * x + 32 * part, _mm_unpacklo_epi16(ab[part], cd[part]));
      store16(out + 4 * x + 32 * part + 16, _mm_unpackhi_epi16(ab[part], cd[part]));
    }
  }
}

void deinterleave(const std::uint8_t* packed, std::uint8_t* first, std::uint8_t* second, std::uint8_t* third,
                  int width) {
  // Byte j of a plane is byte 3 * j + plane of the 48; -1 leaves a place for those of another register.
  const __m128i masks[3][3] = {
      {_mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
       _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1),
       _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13)},
      {_mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
       _mm_setr_epi8(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1),
       _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14)},
      {_mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
       _mm_setr_epi8(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1),
       _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15)},
  };
  std::uint8_t* const planes[3] = {first, second, third};
  for (int x = 0; x < width; x += 16) {
    const __m128i a = load16(packed + 3 * x);
    const __m128i b = load16(packed + 3 * x + 16);
    const __m128i c = load16(packed + 3 * x + 32);
    for (int plane = 0; plane < 3; ++plane) {
      const __m128i mixed = _mm_or_si128(_mm_shuffle_epi8(a, masks[plane][0]), _mm_shuffle_epi8(b, masks[plane][1]));
      store16(planes[plane] + x, _mm_or_si128(mixed, _mm_shuffle_epi8(c, masks[plane][2])));
    }
  }
}

}  // namespace avx2

const Kernels kAvx2Kernels = {
    "avx2",
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
    to_float32,
    to_float16,
    to_bfloat16,
};

}  // namespace spdl
