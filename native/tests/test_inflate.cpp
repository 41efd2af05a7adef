#include "archive/inflate.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

namespace spdl {
namespace {

// RFC 1951, 3.2.4: the last block, stored, of five bytes.
const std::vector<std::uint8_t> kHello = {0x01, 5, 0, 0xfa, 0xff, 'h', 'e', 'l', 'l', 'o'};

bool gives(const std::vector<std::uint8_t>& data, std::size_t size, const std::string& text) {
  std::vector<std::uint8_t> out(size);
  return inflate(data, out) && std::string(out.begin(), out.end()) == text;
}

}  // namespace

TEST_CASE("inflating gives exactly what was asked for, or nothing") {
  if (libdeflate_version().empty()) {
    CHECK_FALSE(gives(kHello, 5, "hello"));
    CHECK_FALSE(crc32(kHello).has_value());
    return;
  }
  CHECK(gives(kHello, 5, "hello"));
  CHECK_FALSE(gives(kHello, 4, "hell"));
  CHECK_FALSE(gives(kHello, 6, "hello"));
  CHECK_FALSE(gives({kHello.begin(), kHello.end() - 1}, 5, "hello"));
  CHECK_FALSE(gives({}, 5, "hello"));
  std::vector<std::uint8_t> longer = kHello;
  longer.push_back(0xff);
  CHECK(gives(longer, 5, "hello"));
}

TEST_CASE("the checksum is that of ISO 3309") {
  const std::array<std::uint8_t, 9> digits = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  if (const auto found = crc32(digits)) {
    CHECK(*found == 0xcbf43926);
    CHECK(*crc32({}) == 0);
  }
}

}  // namespace spdl
