// WAV files: whatever the bytes are, and wherever the window is, the samples lie inside of them.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "wav/wav.h"

namespace {

void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// As a source that may be longer, or whose length is not known.
void find(std::span<const std::uint8_t> data, std::optional<std::uint64_t> file_size) {
  const spdl::WavHeader header = spdl::find_wav_header(
      [&](std::uint64_t position, std::size_t size) {
        const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(position, data.size()));
        return data.subspan(from, std::min(size, data.size() - from));
      },
      file_size);
  expect(!file_size || header.data_size <= *file_size - header.data_offset);
  expect(header.frame_bytes() == 0 || header.sample_bytes <= 8);
}

}  // namespace

void fuzz(std::span<const std::uint8_t> data) {
  if (!data.empty() && data[0] % 2 == 1) {
    return find(data.subspan(1), data[0] % 4 == 1 ? std::optional<std::uint64_t>(data.size() + 1000) : std::nullopt);
  }
  const spdl::WavHeader header = spdl::read_wav_header(data);
  expect(header.data_offset <= data.size() && header.data_size <= data.size() - header.data_offset);
  // Times that the data itself chooses, about as long as it is.
  const double start = data.size() > 20 ? data[20] / 1000.0 : 0;
  const double duration = data.size() > 30 ? data[30] / 100.0 : 0;
  for (const auto& samples : {spdl::find_wav_samples(header, {}, {}), spdl::find_wav_samples(header, start, duration)}) {
    const std::size_t bytes = samples.num_samples * static_cast<std::size_t>(header.frame_bytes());
    expect(samples.offset <= data.size() && bytes <= data.size() - samples.offset);
    spdl::fuzz_touch(data.subspan(samples.offset, bytes));
    if (!samples.is_view) {
      std::vector<std::uint8_t> copy(samples.num_samples * samples.num_channels * samples.element_bytes);
      spdl::copy_wav_samples(header, samples, data, copy.data());
      spdl::fuzz_touch(copy);
    }
  }
}
