// The inner loops of resampling and colour conversion, one table per instruction set. All tables give the same bytes.
//
// Rows are resampled in tiles of kTileRows output rows. The steps for a tile: blend rows (vertical), transpose so that
// each column is contiguous, blend columns (horizontal, now as wide as a register), transpose back. Pointers need no
// alignment. Loops may round their width up to a multiple of kBlock, and read and write up to that, unless they say
// otherwise. Pure functions; thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spdl {

inline constexpr int kTileRows = 32;
inline constexpr int kBlock = 64;
// The period of channels of packed pixels (1, 3 or 4) and a register (16): the number of elements after which both
// start together again.
inline constexpr std::size_t kPeriod = 48;

// libswscale's tables of colours (libswscale/yuv2rgb.c, ff_yuv2rgb_c_init_tables) as arithmetic, shifts rounding down:
// n = luma + what each chroma adds, and the level is n + whole + ((n * fraction + rest) >> 16), clamped.
struct SwscaleColours {
  // A chroma adds origin + chroma * whole + ((chroma * fraction) >> 16).
  struct Chroma {
    std::int16_t origin, whole, fraction;
  };
  Chroma v_to_r, u_to_g, v_to_g, u_to_b;
  std::int16_t fraction, rest, whole;
};

struct Kernels {
  std::string_view name;

  // out[x] = sum over k < num_taps of weights[k] * rows[k][x], rounded and clamped.
  void (*blend_rows)(const std::uint8_t* const* rows, const std::int16_t* weights, int num_taps, std::uint8_t* out,
                     int width);

  // Rows of a tile, `stride` apart, to columns of kTileRows bytes each.
  void (*rows_to_columns)(const std::uint8_t* rows, std::size_t stride, int width, std::uint8_t* columns);

  // Column i of `out` = sum over k of weights[i * num_taps + k] * column first[i] + k of `columns`.
  void (*blend_columns)(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* weights,
                        int num_taps, int num_outputs, std::uint8_t* out);

  void (*columns_to_rows)(const std::uint8_t* columns, int width, std::uint8_t* rows, std::size_t stride);

  // The same two sums with weights of kExactWeightBits, each in two parts: high * 2^kLowBits + low.
  void (*blend_rows_exact)(const std::uint8_t* const* rows, const std::int16_t* high, const std::int16_t* low,
                           int num_taps, std::uint8_t* out, int width);
  void (*blend_columns_exact)(const std::uint8_t* columns, const std::int32_t* first, const std::int16_t* high,
                              const std::int16_t* low, int num_taps, int num_outputs, std::uint8_t* out);

  // BT.601, full range (ITU-T T.871), one row.
  void (*ycbcr_to_rgb)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* r,
                       std::uint8_t* g, std::uint8_t* b, int width);

  // One row as libswscale converts it. `width` is that of luma, and even; chroma has half the width.
  void (*swscale_to_rgb)(const SwscaleColours& colours, const std::uint8_t* y, const std::uint8_t* u,
                         const std::uint8_t* v, std::uint8_t* r, std::uint8_t* g, std::uint8_t* b, int width);

  void (*rgb_to_ycbcr)(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b, std::uint8_t* y,
                       std::uint8_t* cb, std::uint8_t* cr, int width);

  // Three planes of one row to packed triples.
  void (*interleave)(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                     std::uint8_t* out, int width);
  // And four.
  void (*interleave4)(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                      const std::uint8_t* fourth, std::uint8_t* out, int width);
  // Packed triples to three planes of one row.
  void (*deinterleave)(const std::uint8_t* packed, std::uint8_t* first, std::uint8_t* second, std::uint8_t* third,
                       int width);

  // out[i] = levels[i] * factors[i % kPeriod] + summands[i % kPeriod], each operation rounded to float32, and then to
  // the half type, to the nearest, ties to even. These three read and write exactly `count` elements.
  void (*to_float32)(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                     float* out);
  void (*to_float16)(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                     std::uint16_t* out);
  void (*to_bfloat16)(const std::uint8_t* levels, const float* factors, const float* summands, std::size_t count,
                      std::uint16_t* out);
};

// ITU-T T.871 section 7, in multiples of 2^-15, less the whole part that is added apart.
inline constexpr int kCrToR = 13173;   // 1.402 - 1
inline constexpr int kCbToG = -11277;  // -0.344136
inline constexpr int kCrToG = -23401;  // -0.714136
inline constexpr int kCbToB = -7471;   // 1.772 - 2

extern const Kernels kPortableKernels;
#if defined(SPDL_X86_KERNELS)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif
#if defined(SPDL_NEON_KERNELS)
extern const Kernels kNeonKernels;
#endif

// The fastest table that this processor runs.
const Kernels& best_kernels() noexcept;

// The table of that name, if this processor runs it, else nullptr.
const Kernels* find_kernels(std::string_view name) noexcept;

}  // namespace spdl
