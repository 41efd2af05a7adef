// Numbers and text as bytes, little endian, and back. One thread per object.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace spdl {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

// FNV-1a by G. Fowler, L. C. Noll and K.-P. Vo, 64 bits.
inline std::uint64_t hash_of(std::span<const std::uint8_t> data) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const std::uint8_t byte : data) {
    value = (value ^ byte) * 0x100000001b3;
  }
  return value;
}

// Writes to memory; without memory, only counts.
class ByteWriter {
 public:
  explicit ByteWriter(std::uint8_t* out) noexcept : out_(out) {}

  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void number(T value) noexcept {
    bytes({reinterpret_cast<const std::uint8_t*>(&value), sizeof(value)});
  }
  void bytes(std::span<const std::uint8_t> data) noexcept {
    if (out_ != nullptr && !data.empty()) {
      std::memcpy(out_ + size_, data.data(), data.size());
    }
    size_ += data.size();
  }
  // Preceded by its length.
  void block(std::span<const std::uint8_t> data) noexcept {
    number(static_cast<std::uint64_t>(data.size()));
    bytes(data);
  }
  void text(std::string_view words) noexcept {
    block({reinterpret_cast<const std::uint8_t*>(words.data()), words.size()});
  }
  void zeros(std::size_t count) noexcept {
    if (out_ != nullptr) {
      std::memset(out_ + size_, 0, count);
    }
    size_ += count;
  }
  std::size_t size() const noexcept { return size_; }

 private:
  std::uint8_t* out_;
  std::size_t size_ = 0;
};

// Reads; throws Error(kMedia) at the end of the data. `action`, a literal, is what the bytes are read for.
class ByteReader {
 public:
  ByteReader(std::span<const std::uint8_t> data, const char* action) noexcept : data_(data), action_(action) {}

  template <class T>
    requires std::is_arithmetic_v<T>
  T number() {
    T value;
    std::memcpy(&value, bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::span<const std::uint8_t> bytes(std::size_t count) {
    if (count > data_.size()) {
      refuse("the data ends early");
    }
    const auto taken = data_.first(count);
    data_ = data_.subspan(count);
    return taken;
  }
  std::span<const std::uint8_t> block() { return bytes(size()); }
  std::string text() {
    const auto words = block();
    return {reinterpret_cast<const char*>(words.data()), words.size()};
  }
  // A count of things of at least one byte each.
  std::size_t size() {
    const auto count = number<std::uint64_t>();
    if (count > data_.size()) {
      refuse("the data ends early");
    }
    return static_cast<std::size_t>(count);
  }
  std::size_t num_left() const noexcept { return data_.size(); }

  [[noreturn]] void refuse(const std::string& reason) const { throw Error(ErrorKind::kMedia, action_, reason); }

 private:
  std::span<const std::uint8_t> data_;
  const char* action_;
};

}  // namespace spdl
