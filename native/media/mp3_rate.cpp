#include "media/mp3_rate.h"

#include <array>
#include <string_view>

namespace spdl {

std::optional<double> bytes_of_mp3_frame(std::span<const std::uint8_t> before, std::span<const std::uint8_t> frame) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(before.data()), before.size());
  if (text.find("Info") == std::string_view::npos || frame.size() < 4 || frame[0] != 0xff) {
    return std::nullopt;
  }
  constexpr int kMpeg1 = 3;
  constexpr int kMpeg2 = 2;
  constexpr int kLayer3 = 1;
  const int version = frame[1] >> 3 & 3;
  const int layer = frame[1] >> 1 & 3;
  const std::size_t rate_index = frame[2] >> 4;
  const std::size_t frequency_index = frame[2] >> 2 & 3;
  if (version == 1 || layer != kLayer3 || rate_index == 0 || rate_index == 15 || frequency_index == 3) {
    return std::nullopt;
  }
  // In kbit/s.
  static constexpr std::array<int, 15> kRates1 = {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320};
  static constexpr std::array<int, 15> kRates2 = {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160};
  static constexpr std::array<int, 3> kFrequencies = {44100, 48000, 32000};
  const int divisor = version == kMpeg1 ? 1 : version == kMpeg2 ? 2 : 4;
  const double rate = 1000.0 * (version == kMpeg1 ? kRates1 : kRates2)[rate_index];
  const double num_samples = version == kMpeg1 ? 1152 : 576;
  return num_samples / 8 * rate * divisor / kFrequencies[frequency_index];
}

}  // namespace spdl
