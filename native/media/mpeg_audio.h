// Frames of MPEG audio (MP3 and its relatives), as far as their headers describe them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace spdl {

inline constexpr std::size_t kMpegAudioHeader = 4;     // bytes
inline constexpr std::size_t kLongestMp3Frame = 1441;  // bytes

struct MpegAudioHeader {
  std::size_t num_bytes = 0;  // of the whole frame
  int num_samples = 0;        // of each channel
  int sample_rate = 0;
  int bit_rate = 0;  // bit/s
};

// None if this is not the header of a frame, or if the frame is in free format, whose header does not state its length.
// Sources: ISO/IEC 11172-3, 2.4.1.3 and 2.4.2.3; ISO/IEC 13818-3, 2.4.2.3, for the lower sample rates.
std::optional<MpegAudioHeader> parse_mpeg_audio(std::span<const std::uint8_t, kMpegAudioHeader> header) noexcept;

// How many bytes an MP3 frame has on average, where all have the same bit rate; a single one has up to one byte less or more.
// `frame` is the first frame, `before` the up to kLongestMp3Frame bytes before it. There, encoders put a frame without sound
// that players look for: it contains "Info" if the bit rate is constant, and "Xing" if it is not. None without "Info".
std::optional<double> constant_mp3_frame_bytes(std::span<const std::uint8_t> before,
                                               std::span<const std::uint8_t> frame) noexcept;

}  // namespace spdl
