// The inner loops of decoding FLAC, for any processor and for those with AVX2, LZCNT and BMI2. Only plain types: see
// flac_subframes.inc.

#pragma once

#include <cstddef>
#include <cstdint>

namespace spdl {

// How two channels are stored; names are in the order of the frame.
enum class FlacStereo : std::uint8_t { kNone, kLeftSide, kSideRight, kMidSide };

inline constexpr int kMostFlacChannels = 8;

// Samples of each channel. `kFlacRowMargin` elements before each row may be read, and must have been written.
struct FlacRows {
  std::int32_t* first;  // row of the first channel
  std::ptrdiff_t stride;
  int num_channels;
  int num_samples;
  int num_bits[kMostFlacChannels];  // of a stored sample: one more for a difference of channels
};
inline constexpr int kFlacRowMargin = 32;

struct FlacKernels {
  // Decodes the bytes between the header and the checksum of a frame. False if they are not valid.
  bool (*decode)(const std::uint8_t* bytes, const std::uint8_t* end, const FlacRows& rows) noexcept;
  // Interleaves channels, shifted up by `num_unused` bits.
  void (*to_int16)(const FlacRows& rows, FlacStereo stereo, int num_unused, void* to) noexcept;
  void (*to_int32)(const FlacRows& rows, FlacStereo stereo, int num_unused, void* to) noexcept;
};

extern const FlacKernels kFlacKernels;
#if defined(SPDL_X86_KERNELS)
extern const FlacKernels kFlacKernelsAvx2;
#endif

}  // namespace spdl
