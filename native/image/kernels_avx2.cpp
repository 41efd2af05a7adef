// Compiled with -mavx2, so nothing here may be inlined elsewhere: no standard library beyond plain types.

#include <immintrin.h>

#include "image/kernels.h"
#include "image/kernels_avx2.h"
#include "image/taps.h"

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

// 32 sums of 32 bits in the order in which unpacking leaves the bytes, which packing undoes.
struct Sums {
  __m256i part[4];

  Sums() noexcept {
    for (auto& sums : part) {
      sums = _mm256_set1_epi32(1 << (kWeightBits - 1));
    }
  }

  void add(__m256i even, __m256i odd, __m256i weights) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi8(even, odd);
    const __m256i high = _mm256_unpackhi_epi8(even, odd);
    part[0] = _mm256_add_epi32(part[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weights));
    part[1] = _mm256_add_epi32(part[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weights));
    part[2] = _mm256_add_epi32(part[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weights));
    part[3] = _mm256_add_epi32(part[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weights));
  }

  __m256i bytes() const noexcept {
    const __m256i low = _mm256_packs_epi32(_mm256_srai_epi32(part[0], kWeightBits),
                                           _mm256_srai_epi32(part[1], kWeightBits));
    const __m256i high = _mm256_packs_epi32(_mm256_srai_epi32(part[2], kWeightBits),
                                            _mm256_srai_epi32(part[3], kWeightBits));
    return _mm256_packus_epi16(low, high);
  }
};

__m128i narrow(__m256i words) noexcept {
  return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int num_taps, std::uint8_t* out,
                int width) {
  for (int x = 0; x < width; x += kStep) {
    Sums sums;
    for (int k = 0; k < num_taps; k += 2) {
      sums.add(load(rows[k] + x), load(rows[k + 1] + x), weight_pair(weights + k));
    }
    store(out + x, sums.bytes());
  }
}

void blend_columns(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* weights, int num_taps,
                   int num_outputs, std::uint8_t* out) {
  for (int i = 0; i < num_outputs; ++i) {
    const std::uint8_t* column = columns + static_cast<std::ptrdiff_t>(first[i]) * kTileRows;
    Sums sums;
    for (int k = 0; k < num_taps; k += 2) {
      sums.add(load(column), load(column + kTileRows), weight_pair(weights + k));
      column += std::ptrdiff_t{2} * kTileRows;
    }
    store(out, sums.bytes());
    weights += num_taps;
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

}  // namespace avx2

const Kernels kAvx2Kernels = {
    "avx2",
    blend_rows,
    avx2::rows_to_columns,
    blend_columns,
    avx2::columns_to_rows,
    avx2::ycbcr_to_rgb,
    avx2::interleave,
};

}  // namespace spdl
