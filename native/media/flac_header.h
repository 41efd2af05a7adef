// The header of a FLAC frame, and the checksum at its end (RFC 9639, sections 9.1 and 9.3).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "media/flac_subframes.h"

namespace spdl {

inline constexpr std::size_t kLongestFlacHeader = 16;

struct FlacHeader {
  std::size_t num_bytes = 0;  // of the header
  bool is_variable = false;   // frames may have any size, and are counted in samples
  std::int64_t number = 0;    // of the frame, or of its first sample
  int num_samples = 0;
  int sample_rate = 0;  // 0: that of the stream
  int num_channels = 0;
  int num_bits = 0;  // of a sample; 0: that of the stream
  FlacStereo stereo = FlacStereo::kNone;
};

// None if this is not a header with the right checksum.
std::optional<FlacHeader> parse_flac_header(std::span<const std::uint8_t> at) noexcept;

// Updates the checksum `crc` with more bytes. 0 for a whole frame including its checksum.
std::uint16_t flac_crc16(std::uint16_t crc, std::span<const std::uint8_t> bytes) noexcept;

}  // namespace spdl
