// Decodes FLAC frames (RFC 9639), about twice as fast as libavcodec: each loop is compiled for its prediction order,
// and for the processor. It decodes valid frames to the same samples as libavcodec, and leaves everything else to
// libavcodec: damage, frames that differ from the stream, more than 24 bits. One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "media/flac_header.h"

namespace spdl {

// The fastest kernels that this processor supports.
const FlacKernels& choose_flac_kernels() noexcept;

class FlacDecoder {
 public:
  // What each frame must have. Frames of other sizes are refused.
  FlacDecoder(int sample_rate, int num_channels, int num_bits);

  // Decodes the subframes of a frame, one channel after the other. Returns the number of its samples; 0 if the frame is
  // not valid.
  int decode(std::span<const std::uint8_t> frame, bool checks_sum);

  // The samples of the last decoded frame, channels interleaved: `int16` for up to 16 bits, else `int32`; in the high
  // bits of their elements.
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
