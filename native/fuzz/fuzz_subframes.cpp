// Subframes of FLAC: whatever the bytes are, both sets of loops stay in their memory and say the same.

#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "media/flac_decoder.h"

void fuzz(std::span<const std::uint8_t> data) {
  if (data.size() < 4) {
    return;
  }
  const int num_channels = data[0] % spdl::kMostFlacChannels + 1;
  const int num_samples = (data[1] << 4 | data[2] >> 4) + 1;
  const int num_bits = data[3] % 22 + 4;
  const auto body = data.subspan(4);
  const auto decode = [&](const spdl::FlacKernels& kernels, std::vector<std::int32_t>& memory) {
    const std::ptrdiff_t stride = num_samples + spdl::kFlacRowMargin;
    memory.assign(static_cast<std::size_t>(stride * num_channels), 0);
    spdl::FlacRows rows{memory.data() + spdl::kFlacRowMargin, stride, num_channels, num_samples, {}};
    for (int& bits : rows.num_bits) {
      bits = num_bits;
    }
    return kernels.decode(body.data(), body.data() + body.size(), rows);
  };
  std::vector<std::int32_t> one;
  std::vector<std::int32_t> two;
  const bool is_right = decode(spdl::kFlacKernels, one);
  if (decode(spdl::choose_flac_kernels(), two) != is_right || one != two) {
    std::abort();
  }
}
