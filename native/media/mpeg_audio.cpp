#include "media/mpeg_audio.h"

#include <array>
#include <string_view>

namespace spdl {

std::optional<MpegAudioHeader> parse_mpeg_audio(std::span<const std::uint8_t, kMpegAudioHeader> header) noexcept {
  // ISO/IEC 11172-3, 2.4.2.3, and ISO/IEC 13818-3, 2.4.2.3, in kbit/s: MPEG-1 layers I, II and III; MPEG-2 layer I; II and III.
  static constexpr std::array<std::array<int, 15>, 5> kBitRates = {{
      {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
      {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
      {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
      {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
      {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
  }};
  static constexpr std::array<int, 3> kSampleRates = {44100, 48000, 32000};
  const bool has_sync_word = header[0] == 0xff && (header[1] & 0xe0) == 0xe0;
  const int version = header[1] >> 3 & 3;  // 3: MPEG-1, 2: MPEG-2, 0: "MPEG-2.5", at half its sample rates
  const int layer = 4 - (header[1] >> 1 & 3);
  const std::size_t bit_rate_index = header[2] >> 4;
  const std::size_t sample_rate_index = header[2] >> 2 & 3;
  if (!has_sync_word || version == 1 || layer == 4 || bit_rate_index == 0 || bit_rate_index == 15 || sample_rate_index == 3) {
    return std::nullopt;
  }
  const bool is_mpeg1 = version == 3;
  const std::size_t table = is_mpeg1 ? static_cast<std::size_t>(layer - 1) : layer == 1 ? 3 : 4;
  const std::size_t padding = header[2] >> 1 & 1;
  MpegAudioHeader parsed;
  parsed.sample_rate = kSampleRates[sample_rate_index] / (is_mpeg1 ? 1 : version == 2 ? 2 : 4);
  parsed.num_samples = layer == 1 ? 384 : layer == 3 && !is_mpeg1 ? 576 : 1152;
  parsed.bit_rate = 1000 * kBitRates[table][bit_rate_index];
  const std::size_t slot = layer == 1 ? 4 : 1;
  const auto num_bits = static_cast<std::size_t>(parsed.num_samples) * static_cast<std::size_t>(parsed.bit_rate);
  parsed.num_bytes = (num_bits / 8 / slot / static_cast<std::size_t>(parsed.sample_rate) + padding) * slot;
  return parsed;
}

std::optional<double> constant_mp3_frame_bytes(std::span<const std::uint8_t> before,
                                               std::span<const std::uint8_t> frame) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(before.data()), before.size());
  if (text.find("Info") == std::string_view::npos || frame.size() < kMpegAudioHeader) {
    return std::nullopt;
  }
  const auto header = parse_mpeg_audio(frame.first<kMpegAudioHeader>());
  return header ? std::optional(header->num_samples / 8.0 * header->bit_rate / header->sample_rate) : std::nullopt;
}

}  // namespace spdl
