// Decodes FLAC frames (RFC 9639), about twice as fast as libavcodec: each loop is compiled for its order, and for the
// processor. It decodes what is right, to the same samples as libavcodec, and leaves everything else to that: damage,
// frames unlike the stream, more than 24 bits. One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "media/flac_header.h"

namespace spdl {

// The fastest that this processor has.
const FlacKernels& choose_flac_kernels() noexcept;

class FlacDecoder {
 public:
  // What each frame must have. Frames of other sizes are refused.
  FlacDecoder(int sample_rate, int num_channels, int num_bits);

  // Decodes the subframes of a frame, one channel behind the other. The number of its samples; 0 if it is not right.
  int decode(std::span<const std::uint8_t> frame, bool checks_sum);

  // The samples of the frame that was decoded last, channels interleaved: as `int16` of up to 16 bits, or else as
  // `int32`; at the top of their elements.
  bool is_int16() const noexcept { return num_bits_ <= 16; }
  void write(void* to) const noexcept;

 private:
  const FlacKernels* kernels_;
  int sample_rate_;
  int num_bits_;
  FlacStereo stereo_ = FlacStereo::kNone;
  FlacRows rows_{};
  std::vector<std::int32_t> memory_;
};

}  // namespace spdl
