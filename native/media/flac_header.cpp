#include "media/flac_header.h"

#include <algorithm>
#include <array>

namespace spdl {
namespace {

// x^8 + x^2 + x + 1, of a header.
std::uint8_t crc8(std::span<const std::uint8_t> bytes) noexcept {
  unsigned crc = 0;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc << 1 ^ ((crc & 0x80) != 0 ? 0x07U : 0U)) & 0xff;
    }
  }
  return static_cast<std::uint8_t>(crc);
}

// x^16 + x^15 + x^2 + 1, of a frame. Table i is for a byte that has i bytes behind it.
constexpr std::size_t kSlices = 8;
constexpr auto kCrc16 = [] {
  std::array<std::array<std::uint16_t, 256>, kSlices> tables{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc << 1 ^ ((crc & 0x8000) != 0 ? 0x8005U : 0U)) & 0xffff;
    }
    tables[0][byte] = static_cast<std::uint16_t>(crc);
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned before = tables[slice - 1][byte];
      tables[slice][byte] = static_cast<std::uint16_t>((before << 8 & 0xffff) ^ tables[0][before >> 8]);
    }
  }
  return tables;
}();

}  // namespace

std::uint16_t flac_crc16(std::uint16_t crc, std::span<const std::uint8_t> bytes) noexcept {
  for (; bytes.size() >= kSlices; bytes = bytes.subspan(kSlices)) {
    unsigned next = kCrc16[7][bytes[0] ^ crc >> 8] ^ kCrc16[6][bytes[1] ^ (crc & 0xff)];
    for (std::size_t i = 2; i < kSlices; ++i) {
      next ^= kCrc16[kSlices - 1 - i][bytes[i]];
    }
    crc = static_cast<std::uint16_t>(next);
  }
  for (const std::uint8_t byte : bytes) {
    crc = static_cast<std::uint16_t>(crc << 8 ^ kCrc16[0][crc >> 8 ^ byte]);
  }
  return crc;
}

namespace {

// Hands out the bytes of a header one after the other; zeros behind the end.
class HeaderBytes {
 public:
  explicit HeaderBytes(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

  unsigned next() noexcept { return read_ < bytes_.size() ? bytes_[read_++] : (is_short_ = true, 0U); }
  unsigned next_two() noexcept {
    const unsigned high = next();
    return high << 8 | next();
  }
  bool is_short() const noexcept { return is_short_; }
  std::span<const std::uint8_t> taken() const noexcept { return bytes_.first(read_); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t read_ = 0;
  bool is_short_ = false;
};

// A number in up to seven bytes, as UTF-8 writes code points.
std::optional<std::int64_t> coded_number(HeaderBytes& bytes) noexcept {
  const unsigned lead = bytes.next();
  if (lead < 0x80) {
    return lead;
  }
  int num_more = 0;
  while (num_more < 7 && (lead << (num_more + 1) & 0x80) != 0) {
    ++num_more;
  }
  if (num_more == 0 || num_more == 7) {
    return std::nullopt;
  }
  std::int64_t number = num_more == 6 ? 0 : lead & (0x3fU >> num_more);
  for (int i = 0; i < num_more; ++i) {
    const unsigned byte = bytes.next();
    if ((byte & 0xc0) != 0x80) {
      return std::nullopt;
    }
    number = number << 6 | (byte & 0x3f);
  }
  return number;
}

// 0 for a code that is reserved.
int block_size(unsigned code, HeaderBytes& bytes) noexcept {
  if (code == 1) {
    return 192;
  }
  if (code >= 2 && code <= 5) {
    return 144 << code;
  }
  if (code == 6) {
    return static_cast<int>(bytes.next()) + 1;
  }
  if (code == 7) {
    return static_cast<int>(bytes.next_two()) + 1;
  }
  return code == 0 ? 0 : 1 << code;
}

// 0 where the stream says it, -1 for a code that is reserved.
int sample_rate(unsigned code, HeaderBytes& bytes) noexcept {
  static constexpr std::array<int, 12> kRates = {0,     88200, 176400, 192000, 8000,  16000,
                                                 22050, 24000, 32000,  44100,  48000, 96000};
  if (code < kRates.size()) {
    return kRates[code];
  }
  switch (code) {
    case 12:
      return static_cast<int>(bytes.next()) * 1000;
    case 13:
      return static_cast<int>(bytes.next_two());
    case 14:
      return static_cast<int>(bytes.next_two()) * 10;
    default:
      return -1;
  }
}

}  // namespace

std::optional<FlacHeader> parse_flac_header(std::span<const std::uint8_t> at) noexcept {
  HeaderBytes bytes(at.first(std::min(at.size(), kLongestFlacHeader)));
  FlacHeader header;
  const unsigned sync = bytes.next();
  const unsigned second = bytes.next();
  if (sync != 0xff || (second & 0xfe) != 0xf8) {
    return std::nullopt;
  }
  header.is_variable = (second & 1) != 0;
  const unsigned sizes = bytes.next();
  const unsigned form = bytes.next();
  static constexpr std::array<int, 8> kBits = {0, 8, 12, -1, 16, 20, 24, 32};
  static constexpr std::array<FlacStereo, 3> kStereo = {FlacStereo::kLeftSide, FlacStereo::kSideRight,
                                                        FlacStereo::kMidSide};
  header.num_bits = kBits[form >> 1 & 7];
  const unsigned channels = form >> 4;
  if ((form & 1) != 0 || header.num_bits < 0 || channels > 10) {
    return std::nullopt;
  }
  header.num_channels = channels < 8 ? static_cast<int>(channels) + 1 : 2;
  header.stereo = channels < 8 ? FlacStereo::kNone : kStereo[channels - 8];
  const auto number = coded_number(bytes);
  header.num_samples = block_size(sizes >> 4, bytes);
  header.sample_rate = sample_rate(sizes & 0xf, bytes);
  if (!number || header.num_samples < 1 || header.sample_rate < 0) {
    return std::nullopt;
  }
  header.number = *number;
  const std::uint8_t expected = crc8(bytes.taken());
  if (bytes.next() != expected || bytes.is_short()) {
    return std::nullopt;
  }
  header.num_bytes = bytes.taken().size();
  return header;
}

}  // namespace spdl
