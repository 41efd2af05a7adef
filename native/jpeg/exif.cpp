#include "jpeg/exif.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace spdl {
namespace {

constexpr int kUpright = 1;
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::size_t kEntryBytes = 12;

// Numbers of a TIFF structure (TIFF 6.0, section 2). Reading outside gives 0, which no caller takes for valid.
class Tiff {
 public:
  Tiff(std::span<const std::uint8_t> bytes, bool big_endian) noexcept : bytes_(bytes), big_endian_(big_endian) {}

  std::uint32_t number(std::size_t offset, std::size_t size) const noexcept {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      return 0;
    }
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8 | bytes_[offset + (big_endian_ ? i : size - 1 - i)];
    }
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> app1) noexcept {
  constexpr std::array<std::uint8_t, 6> kHeader = {'E', 'x', 'i', 'f', 0, 0};
  if (app1.size() < kHeader.size() + 8 || !std::equal(kHeader.begin(), kHeader.end(), app1.begin())) {
    return kUpright;
  }
  const auto body = app1.subspan(kHeader.size());
  const bool big_endian = body[0] == 'M' && body[1] == 'M';
  if (!big_endian && !(body[0] == 'I' && body[1] == 'I')) {
    return kUpright;
  }
  const Tiff tiff(body, big_endian);
  if (tiff.number(2, 2) != 42) {
    return kUpright;
  }
  const std::size_t directory = tiff.number(4, 4);
  const std::size_t num_entries = tiff.number(directory, 2);
  for (std::size_t i = 0; i < num_entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) == kOrientationTag) {
      const auto value = static_cast<int>(tiff.number(entry + 8, 2));
      const bool valid = tiff.number(entry + 2, 2) == kShort && value >= 1 && value <= 8;
      return valid ? value : kUpright;
    }
  }
  return kUpright;
}

}  // namespace spdl
