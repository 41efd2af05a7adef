// The type of an array's elements, with NumPy's names where it has them; always in the byte order of this machine.

#pragma once

#include <bit>
#include <string>

namespace spdl {

struct ElementType {
  char kind = 'u';  // 'u' unsigned and 'i' signed integers, 'f' floating point (IEEE 754), 'b' bfloat16
  int size = 1;     // in bytes

  friend bool operator==(ElementType, ElementType) = default;
};

inline constexpr ElementType kUint8{'u', 1};
inline constexpr ElementType kUint16{'u', 2};
inline constexpr ElementType kInt16{'i', 2};
inline constexpr ElementType kInt32{'i', 4};
inline constexpr ElementType kInt64{'i', 8};
inline constexpr ElementType kFloat16{'f', 2};
inline constexpr ElementType kFloat32{'f', 4};
inline constexpr ElementType kFloat64{'f', 8};
inline constexpr ElementType kBfloat16{'b', 2};  // the upper half of a float32

// "uint8", "float32", "bfloat16".
inline std::string name_of(ElementType type) {
  const char* kind = type.kind == 'u' ? "uint" : type.kind == 'i' ? "int" : type.kind == 'f' ? "float" : "bfloat";
  return kind + std::to_string(8 * type.size);
}

// NumPy's type string: "|u1", "<f4". Not for bfloat16, which has none.
inline std::string typestr_of(ElementType type) {
  const char order = type.size == 1 ? '|' : std::endian::native == std::endian::little ? '<' : '>';
  return {order, type.kind, static_cast<char>('0' + type.size)};
}

// The struct module's format character, which the buffer protocol uses: "B", "f". The sizes are the same on every
// platform that we build for.
constexpr const char* format_of(ElementType type) noexcept {
  if (type == kBfloat16) {
    // The struct module has no character for bfloat16, and consumers must not mistake it for another type. This is the
    // character that the package ml_dtypes has registered with NumPy.
    return "E";
  }
  if (type.kind == 'f') {
    return type.size == 2 ? "e" : type.size == 4 ? "f" : "d";
  }
  const bool is_signed = type.kind == 'i';
  switch (type.size) {
    case 1:
      return is_signed ? "b" : "B";
    case 2:
      return is_signed ? "h" : "H";
    case 4:
      return is_signed ? "i" : "I";
    default:
      // Not always "q": where long has 8 bytes, NumPy calls int64 "l".
      return sizeof(long) == 8 ? (is_signed ? "l" : "L") : (is_signed ? "q" : "Q");
  }
}

}  // namespace spdl
