// WAV files: whatever the bytes are, and wherever the window is, the samples lie inside of them.

#include <cstdlib>

#include "fuzz/target.h"
#include "wav/wav.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::WavHeader header = spdl::read_wav_header(data);
  if (header.data_offset > data.size() || header.data_size > data.size() - header.data_offset) {
    std::abort();
  }
  // Times that the data itself chooses, about as long as it is.
  const double start = data.size() > 20 ? data[20] / 1000.0 : 0;
  const double duration = data.size() > 30 ? data[30] / 100.0 : 0;
  for (const auto& samples : {spdl::find_wav_samples(header, {}, {}), spdl::find_wav_samples(header, start, duration)}) {
    const std::size_t bytes = samples.num_samples * samples.num_channels * (header.bits_per_sample / 8);
    if (samples.offset > data.size() || bytes > data.size() - samples.offset) {
      std::abort();
    }
    spdl::fuzz_touch(data.subspan(samples.offset, bytes));
  }
}
