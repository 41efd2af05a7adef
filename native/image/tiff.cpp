#include "image/tiff.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace spdl {
namespace {

constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;
constexpr std::uint32_t kSoftware = 305;

// TIFF 6.0, sections 3 to 21, and Adobe's notes: what the pixels of one image depend on.
constexpr std::array<std::uint32_t, 20> kOfPixels = {256, 257, 258, 259, 262, 266, 273, 277, 278, 279,
                                                     284, 292, 293, 317, 320, 322, 323, 324, 325, 530};

}  // namespace

TiffDirectory::TiffDirectory(Bytes data) noexcept : data_(data), big_endian_(has_name(data, 0, "MM")) {
  if ((big_endian_ || has_name(data, 0, "II")) && number(2, 2) == 42) {
    const std::size_t directory = number(4, 4);
    start_ = directory + 2;
    const std::size_t room = data.size() > start_ ? (data.size() - start_) / kEntryBytes : 0;
    num_entries_ = std::min<std::size_t>(number(directory, 2), room);
  }
}

std::optional<std::uint32_t> TiffDirectory::field(std::uint32_t tag, std::uint32_t type,
                                                  std::size_t value_bytes) const noexcept {
  for (std::size_t i = 0; i < num_entries_; ++i) {
    const std::size_t at = offset_of(i);
    if (tag_of(i) == tag) {
      return number(at + 2, 2) == type ? std::optional(number(at + 8, value_bytes)) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> TiffDirectory::short_field(std::uint32_t tag) const noexcept {
  return field(tag, kShort, 2);
}

std::optional<std::uint32_t> TiffDirectory::number_field(std::uint32_t tag) const noexcept {
  const auto value = field(tag, kShort, 2);
  return value ? value : field(tag, kLong, 4);
}

Bytes without_other_fields(Bytes tiff, Buffer& into) {
  const TiffDirectory directory(tiff);
  std::uint8_t* copy = into.reserve(tiff.size());
  std::memcpy(copy, tiff.data(), tiff.size());
  for (std::size_t i = 0; i < directory.num_entries(); ++i) {
    if (std::find(kOfPixels.begin(), kOfPixels.end(), directory.tag_of(i)) == kOfPixels.end()) {
      // An empty text in its place, because entries cannot be taken out.
      std::array<std::uint8_t, TiffDirectory::kEntryBytes> field{};
      const bool big = directory.is_big_endian();
      field[big ? 0 : 1] = kSoftware >> 8;
      field[big ? 1 : 0] = kSoftware & 0xff;
      field[big ? 3 : 2] = 2;  // ASCII
      field[big ? 7 : 4] = 1;
      std::memcpy(copy + directory.offset_of(i), field.data(), field.size());
    }
  }
  return {copy, tiff.size()};
}

}  // namespace spdl
