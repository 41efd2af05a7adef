#include "image/netpbm.h"

#include <doctest/doctest.h>

#include <string_view>

using namespace std::string_view_literals;

namespace spdl {

TEST_CASE("the header of Netpbm ends with one blank, and may have comments") {
  const auto header = netpbm_header(as_bytes("P5\n# 1 2 3\n 7 # width\n11\n1000\n\n"sv));
  REQUIRE(header);
  CHECK(header->width == 7);
  CHECK(header->height == 11);
  CHECK(header->most == 1000);
  CHECK(header->size == 30);
  const auto floats = netpbm_header(as_bytes("PF\n3 2\n-0.5\n"sv));
  REQUIRE(floats);
  CHECK(floats->scale == -0.5);
  CHECK(floats->depth == 3);
}

TEST_CASE("fields of PAM come in any order") {
  const auto header = netpbm_header(as_bytes("P7\nDEPTH 4\n# no field\nHEIGHT 2\nTUPLTYPE RGB_ALPHA \nMAXVAL 255\nWIDTH 3\nENDHDR\nx"sv));
  REQUIRE(header);
  CHECK(header->depth == 4);
  CHECK(header->width == 3);
  CHECK(header->tuple == "RGB_ALPHA");
}

TEST_CASE("a header that is cut, of another kind or out of range is none") {
  for (const auto& text : {"P5\n7 11\n1000"sv, "P5\n7 11"sv, "P8\n7 11 255\n"sv, "P5\n0 11 255\n"sv, "P5\n7 11 0\n"sv, "P5\n7 11 65536\n"sv,
                           "PF\n3 2\n0\n"sv, "PF\n3 2\nx\n"sv, "P5\n-7 11 255\n"sv, "P7\nWIDTH 3\nENDHDR\n"sv,
                           "P7\nWIDTH 99999999999\nHEIGHT 1\nDEPTH 1\nMAXVAL 1\nENDHDR\n"sv, "P"sv, ""sv}) {
    CHECK_FALSE(netpbm_header(as_bytes(text)));
  }
}

TEST_CASE("numbers in text stop at what is no digit") {
  std::size_t at = 0;
  const Bytes text = as_bytes("10 # 9\n 7x"sv);
  CHECK(next_number(text, at) == 10);
  CHECK(next_number(text, at) == 7);
  CHECK_FALSE(next_number(text, at));
  at = 0;
  CHECK(next_number(text, at, 1) == 1);
  CHECK(next_number(text, at, 1) == 0);
}

}  // namespace spdl
