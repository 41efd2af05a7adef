#include "image/tiff.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace spdl {
namespace {

constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;
constexpr std::uint32_t kByte = 1;
constexpr std::uint32_t kUndefined = 7;

// TIFF 6.0, sections 3 to 21, and Adobe's notes: what the pixels of one image depend on.
constexpr std::array<std::uint32_t, 20> kOfPixels = {256, 257, 258, 259, 262, 266, 273, 277, 278, 279,
                                                     284, 292, 293, 317, 320, 322, 323, 324, 325, 530};

}  // namespace

TiffDirectory::TiffDirectory(Bytes data) noexcept : data_(data), big_endian_(has_name(data, 0, "MM")) {
  is_big_ = number(2, 2) == 43;
  if ((big_endian_ || has_name(data, 0, "II")) && (number(2, 2) == 42 || is_big_)) {
    const std::size_t directory = size_at(is_big_ ? 8 : 4);
    start_ = directory + (is_big_ ? 8 : 2);
    const std::size_t room = data.size() > start_ ? (data.size() - start_) / entry_bytes() : 0;
    num_entries_ = std::min<std::size_t>(is_big_ ? size_at(directory) : number(directory, 2), room);
  }
}

std::uint32_t TiffDirectory::size_at(std::size_t offset) const noexcept {
  if (!is_big_) {
    return number(offset, 4);
  }
  const std::uint32_t low = number(big_endian_ ? offset + 4 : offset, 4);
  const std::uint32_t high = number(big_endian_ ? offset : offset + 4, 4);
  return high == 0 ? low : UINT32_MAX;
}

std::size_t TiffDirectory::find(std::uint32_t tag) const noexcept {
  for (std::size_t i = 0; i < num_entries_; ++i) {
    if (tag_of(i) == tag) {
      return offset_of(i);
    }
  }
  return data_.size();
}

std::optional<std::uint32_t> TiffDirectory::field(std::uint32_t tag, std::uint32_t type,
                                                  std::size_t value_bytes) const noexcept {
  const std::size_t at = find(tag);
  return number(at + 2, 2) == type ? std::optional(number(value_of(at), value_bytes)) : std::nullopt;
}

std::optional<std::uint32_t> TiffDirectory::short_field(std::uint32_t tag) const noexcept {
  return field(tag, kShort, 2);
}

std::uint32_t TiffDirectory::count_of(std::uint32_t tag) const noexcept { return size_at(find(tag) + 4); }

std::optional<std::uint32_t> TiffDirectory::value_at(std::uint32_t tag, std::size_t index) const noexcept {
  const std::size_t at = find(tag);
  const std::uint32_t type = number(at + 2, 2);
  const std::size_t size = type == kShort ? 2 : 4;
  const std::size_t count = size_at(at + 4);
  if ((type != kShort && type != kLong) || index >= count) {
    return std::nullopt;
  }
  const std::size_t room = is_big_ ? 8 : 4;  // in the entry itself
  const std::size_t values = count * size > room ? size_at(value_of(at)) : value_of(at);
  return number(values + index * size, size);
}

Bytes TiffDirectory::bytes_of(std::uint32_t tag) const noexcept {
  const std::size_t at = find(tag);
  const std::uint32_t type = number(at + 2, 2);
  if (type != kByte && type != kUndefined) {
    return {};
  }
  const std::size_t count = number(at + 4, 4);
  constexpr std::size_t kRoom = 4;  // in the entry itself
  return part(data_, count > kRoom ? number(at + 8, 4) : at + 8, count);
}

std::optional<std::uint32_t> TiffDirectory::first_short(std::uint32_t tag) const noexcept {
  return number(find(tag) + 2, 2) == kShort ? value_at(tag, 0) : std::nullopt;
}

std::optional<std::uint32_t> TiffDirectory::number_field(std::uint32_t tag) const noexcept {
  const auto value = field(tag, kShort, 2);
  return value ? value : field(tag, kLong, 4);
}

Bytes without_other_fields(Bytes tiff, Buffer& into) {
  const TiffDirectory directory(tiff);
  std::uint8_t* copy = into.reserve(tiff.size());
  std::copy(tiff.begin(), tiff.end(), copy);
  if (directory.num_entries() == 0 || directory.is_big()) {
    return {copy, tiff.size()};
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < directory.num_entries(); ++i) {
    if (std::find(kOfPixels.begin(), kOfPixels.end(), directory.tag_of(i)) != kOfPixels.end()) {
      std::memmove(copy + directory.offset_of(kept++), copy + directory.offset_of(i), directory.entry_bytes());
    }
  }
  if (kept < directory.num_entries()) {
    // How many there are, and no further directory, which stands behind the last of them.
    std::uint8_t* count = copy + directory.offset_of(0) - 2;
    count[directory.is_big_endian() ? 0 : 1] = static_cast<std::uint8_t>(kept >> 8);
    count[directory.is_big_endian() ? 1 : 0] = static_cast<std::uint8_t>(kept);
    std::memset(copy + directory.offset_of(kept), 0, 4);
  }
  return {copy, tiff.size()};
}

}  // namespace spdl
