// Numbers and names in encoded data. Beyond the end of the data, numbers read as 0, and names do not match.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace spdl {

using Bytes = std::span<const std::uint8_t>;

inline std::uint32_t byte_at(Bytes bytes, std::size_t offset) noexcept {
  return offset < bytes.size() ? bytes[offset] : 0U;
}

// `size` is at most 4.
inline std::uint32_t big_endian(Bytes bytes, std::size_t offset, std::size_t size) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | byte_at(bytes, offset + i);
  }
  return value;
}

inline std::uint32_t little_endian(Bytes bytes, std::size_t offset, std::size_t size) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | byte_at(bytes, offset + i);
  }
  return value;
}

inline Bytes as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

inline bool has_name(Bytes bytes, std::size_t offset, std::string_view name) noexcept {
  const Bytes wanted = as_bytes(name);
  return offset <= bytes.size() && bytes.size() - offset >= wanted.size() &&
         std::equal(wanted.begin(), wanted.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

// `size` bytes from `offset` on, or as many as there are.
inline Bytes part(Bytes bytes, std::size_t offset, std::size_t size = SIZE_MAX) noexcept {
  offset = std::min(offset, bytes.size());
  return bytes.subspan(offset, std::min(size, bytes.size() - offset));
}

}  // namespace spdl
