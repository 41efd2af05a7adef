// The directory at the front of a TIFF file, or of EXIF data.

#pragma once

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// Fields of the first image's directory (TIFF 6.0, section 2).
class TiffDirectory {
 public:
  // Empty for data that is not TIFF.
  explicit TiffDirectory(Bytes data) noexcept;

  // The field's first value, if it is of type SHORT.
  std::optional<std::uint32_t> short_field(std::uint32_t tag) const noexcept;
  // The same, also for values that are too many to be stored in the entry itself.
  std::optional<std::uint32_t> first_short(std::uint32_t tag) const noexcept;
  // The field's only value, if it is of type SHORT or LONG.
  std::optional<std::uint32_t> number_field(std::uint32_t tag) const noexcept;

  bool has(std::uint32_t tag) const noexcept { return count_of(tag) > 0; }
  // How many values the field states; 0 if it is missing.
  std::uint32_t count_of(std::uint32_t tag) const noexcept;
  // One of the field's values, if it is of type SHORT or LONG.
  std::optional<std::uint32_t> value_at(std::uint32_t tag, std::size_t index) const noexcept;

  // The field's values as bytes, as far as present, if it is of type BYTE or UNDEFINED.
  Bytes bytes_of(std::uint32_t tag) const noexcept;

  // Number of entries that lie inside the data.
  std::size_t num_entries() const noexcept { return num_entries_; }
  std::size_t entry_bytes() const noexcept { return is_big_ ? 20 : 12; }
  std::size_t offset_of(std::size_t entry) const noexcept { return start_ + entry * entry_bytes(); }
  std::uint32_t tag_of(std::size_t entry) const noexcept { return number(offset_of(entry), 2); }
  bool is_big_endian() const noexcept { return big_endian_; }
  // BigTIFF, whose counts and offsets have 64 bits (libtiff's specification of 2007).
  bool is_big() const noexcept { return is_big_; }

 private:
  // Position of the entry; the end of the data if it is missing.
  std::size_t find(std::uint32_t tag) const noexcept;
  std::optional<std::uint32_t> field(std::uint32_t tag, std::uint32_t type, std::size_t value_bytes) const noexcept;
  std::uint32_t number(std::size_t offset, std::size_t size) const noexcept {
    return big_endian_ ? big_endian(data_, offset, size) : little_endian(data_, offset, size);
  }
  // A count or an offset: where it does not fit into 32 bits, the end of the data, or as many as there can be.
  std::uint32_t size_at(std::size_t offset) const noexcept;
  std::size_t value_of(std::size_t entry_at) const noexcept { return entry_at + (is_big_ ? 12 : 8); }

  Bytes data_;
  bool big_endian_ = false;
  bool is_big_ = false;
  std::size_t start_ = 0;
  std::size_t num_entries_ = 0;
};

// A copy of the file in `into`, without the fields that do not affect its first image's pixels. When FFmpeg's decoder
// is strict about damage, it also treats unknown fields as damage.
Bytes without_other_fields(Bytes tiff, Buffer& into);

}  // namespace spdl
