// Parsing of WAV files in memory: the header and the location of the samples.
//
// RIFF, and RF64 with its 64-bit sizes. Sources: Multimedia Programming Interface and Data Specifications 1.0 (IBM and
// Microsoft, 1991), chapter 3; EBU Tech 3306 (RF64).
// Plain functions and values; throws Error(kWav).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace spdl {

struct WavHeader {
  unsigned audio_format = 0;  // 1: PCM, 3: IEEE float
  unsigned num_channels = 0;
  std::uint32_t sample_rate = 0;
  std::uint32_t byte_rate = 0;
  unsigned block_align = 0;  // bytes of one sample of all channels
  unsigned bits_per_sample = 0;
  std::uint64_t data_size = 0;    // in bytes
  std::size_t data_offset = 0;
};

// Accepts any coding; the data lies inside `file`.
WavHeader read_wav_header(std::span<const std::uint8_t> file);

// Samples that can be viewed as an array.
struct WavSamples {
  const char* typestr = "";  // of NumPy's array interface
  std::size_t offset = 0;    // in the file
  std::size_t num_samples = 0;  // of each channel
  std::size_t num_channels = 0;
};

// Times in seconds; a window without an end extends to the end of the file.
WavSamples find_wav_samples(const WavHeader& header, std::optional<double> start, std::optional<double> duration);

}  // namespace spdl
