#include "image/bytes.h"

#include <doctest/doctest.h>

#include <array>

namespace spdl {

TEST_CASE("numbers are read in either order of bytes") {
  const std::array<std::uint8_t, 4> data{0x12, 0x34, 0x56, 0x78};
  CHECK(big_endian(data, 0, 4) == 0x12345678);
  CHECK(little_endian(data, 0, 4) == 0x78563412);
  CHECK(big_endian(data, 1, 2) == 0x3456);
}

TEST_CASE("what lies past the end reads as nothing") {
  const std::array<std::uint8_t, 2> data{0xff, 0xff};
  CHECK(big_endian(data, 1, 2) == 0xff00);
  CHECK(byte_at(data, 2) == 0);
  CHECK(little_endian(data, SIZE_MAX, 1) == 0);
  CHECK(part(data, 5).empty());
  CHECK(part(data, 1, SIZE_MAX).size() == 1);
}

TEST_CASE("a name is found only where all of it is") {
  const Bytes data = as_bytes("RIFFxxxxWEBP");
  CHECK(has_name(data, 0, "RIFF"));
  CHECK(has_name(data, 8, "WEBP"));
  CHECK_FALSE(has_name(data, 9, "WEBP"));
  CHECK_FALSE(has_name(data, SIZE_MAX, "R"));
}

}  // namespace spdl
