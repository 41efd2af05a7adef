#include "image/lzw.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace spdl {
namespace {

// Codes of `width` bits each, in GIF's order.
std::vector<std::uint8_t> pack(const std::vector<unsigned>& codes, unsigned width) {
  std::vector<std::uint8_t> bytes((codes.size() * width + 7) / 8);
  for (std::size_t i = 0; i < codes.size() * width; ++i) {
    bytes[i / 8] |= static_cast<std::uint8_t>((codes[i / width] >> (i % width) & 1U) << (i % 8));
  }
  return bytes;
}

// Digits of the symbols; empty if there are fewer than `size`.
std::string unpacked(const std::vector<std::uint8_t>& codes, std::size_t size) {
  std::vector<std::uint8_t> out(size);
  if (!unpack_lzw(codes, LzwKind::kGif, 2, out)) {
    return {};
  }
  std::string text;
  for (const std::uint8_t symbol : out) {
    text += static_cast<char>('0' + symbol);
  }
  return text;
}

constexpr unsigned kClear = 4;
constexpr unsigned kEnd = 5;

}  // namespace

TEST_CASE("a string may be the one that its own code completes") {
  CHECK(unpacked(pack({kClear, 1, 6}, 3), 3) == "111");
  CHECK(unpacked(pack({kClear, 1, 2, 6}, 3), 4) == "1212");
}

TEST_CASE("what follows the last byte that is wanted is ignored") {
  CHECK(unpacked(pack({kClear, 1, 6, kEnd}, 3), 2) == "11");
  CHECK(unpacked(pack({kClear, 1, 2}, 3), 1) == "1");
}

TEST_CASE("codes that end early or that no table has give nothing") {
  CHECK(unpacked(pack({kClear, 1, 2}, 3), 9).empty());
  CHECK(unpacked(pack({kClear, 1, kEnd, 1}, 3), 2).empty());
  CHECK(unpacked(pack({kClear, 6}, 3), 1).empty());
  CHECK(unpacked(pack({kClear, 1, 7}, 3), 2).empty());
  CHECK(unpacked({}, 1).empty());
  std::vector<std::uint8_t> out(1);
  CHECK_FALSE(unpack_lzw(pack({kClear, 1}, 3), LzwKind::kGif, 1, out));
  CHECK_FALSE(unpack_lzw(pack({kClear, 1}, 3), LzwKind::kGif, 9, out));
}

TEST_CASE("strings of any length go to their places") {
  // 1, 11, 111 and so on: each is the string before it and its first symbol.
  std::vector<unsigned> codes = {kClear, 1, 6, 7};
  std::vector<std::uint8_t> bytes = pack(codes, 3);
  CHECK(unpacked(bytes, 6) == "111111");
  for (std::size_t size = 1; size <= 6; ++size) {
    CHECK(unpacked(bytes, size) == std::string(size, '1'));
  }
}

}  // namespace spdl
