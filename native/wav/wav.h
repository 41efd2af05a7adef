// Parsing of WAV files: the header, the location of the samples, and samples as arrays.
//
// RIFF; RIFX, which is big-endian; RF64 and BW64, with 64-bit sizes. Sources: Multimedia Programming Interface and Data
// Specifications 1.0 (IBM and Microsoft, 1991), chapter 3; WAVEFORMATEXTENSIBLE (Microsoft, mmreg.h); EBU Tech 3306
// (RF64); ITU-R BS.2088 (BW64). Plain functions and values; throws Error(kWav).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace spdl {

enum class WavCoding { kOther, kInteger, kFloat, kALaw, kMuLaw };

struct WavHeader {
  // As the file states them.
  unsigned audio_format = 0;
  unsigned num_channels = 0;
  std::uint32_t sample_rate = 0;
  std::uint32_t byte_rate = 0;
  unsigned block_align = 0;
  unsigned bits_per_sample = 0;

  WavCoding coding = WavCoding::kOther;  // of WAVE_FORMAT_EXTENSIBLE, the one of its sub-format
  std::uint32_t channel_mask = 0;        // of WAVE_FORMAT_EXTENSIBLE
  bool is_big_endian = false;  // RIFX
  bool is_64 = false;          // RF64 or BW64
  // Bytes of one sample of one channel. Those with fewer bits are left-justified, as all specifications have it. 0 if the
  // coding is another, or what the file states does not fit together.
  unsigned sample_bytes = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t data_size = 0;  // bytes of samples that are there
  // Bytes of samples according to the file; none if its writer never filled in the size.
  std::optional<std::uint64_t> stated_size;

  std::uint64_t frame_bytes() const noexcept { return std::uint64_t{num_channels} * sample_bytes; }
};

// Returns bytes of the file from that position on, fewer at its end. They are valid until the next call.
using WavBytesAt = std::function<std::span<const std::uint8_t>(std::uint64_t position, std::size_t size)>;

// Accepts any coding, and a file whose samples end early. `file_size`: none if unknown; data_size then is the stated one, or
// the largest number.
WavHeader find_wav_header(const WavBytesAt& bytes_at, std::optional<std::uint64_t> file_size);

// Accepts any coding; the data lies inside `file`.
WavHeader read_wav_header(std::span<const std::uint8_t> file);

// Samples as an array.
struct WavSamples {
  const char* typestr = "";      // of NumPy's array interface
  unsigned element_bytes = 0;
  bool is_view = true;           // the file has the samples as the array has them; else `copy_wav_samples` makes them
  std::size_t offset = 0;        // in the file
  std::size_t num_samples = 0;   // of each channel
  std::size_t num_channels = 0;
};

// Times in seconds; a window without an end extends to the end of the file.
WavSamples find_wav_samples(const WavHeader& header, std::optional<double> start, std::optional<double> duration);

// Writes the samples of the array: 24 bits as left-justified integers of 32 bits, big-endian ones in the machine's order.
void copy_wav_samples(const WavHeader& header, const WavSamples& samples, std::span<const std::uint8_t> file,
                      std::uint8_t* out) noexcept;

}  // namespace spdl
