#include "archive/npy.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace spdl {
namespace {

// NEP 1: magic, version 1.0, length of the header, the header.
std::vector<std::uint8_t> npy(const std::string& header) {
  std::vector<std::uint8_t> file{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  file.push_back(static_cast<std::uint8_t>(header.size() & 0xff));
  file.push_back(static_cast<std::uint8_t>(header.size() >> 8));
  file.insert(file.end(), header.begin(), header.end());
  return file;
}

}  // namespace

TEST_CASE("a header says what the data is and where it begins") {
  const auto file = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }\n");
  const NpyHeader header = read_npy_header(file);
  CHECK(header.descr == "<f4");
  CHECK(header.is_fortran_order);
  CHECK(header.shape == std::vector<std::uint64_t>{3, 4});
  CHECK(header.offset == file.size());
}

TEST_CASE("scalars, one dimension, other quotes and other orders are understood") {
  CHECK(read_npy_header(npy("{'descr': '|u1', 'fortran_order': False, 'shape': ()}")).shape.empty());
  CHECK(read_npy_header(npy("{\"shape\": (5,), \"fortran_order\": False, \"descr\": \"|u1\"}")).shape ==
        std::vector<std::uint64_t>{5});
}

TEST_CASE("damage is an error") {
  CHECK_THROWS_AS(read_npy_header({}), Error);
  CHECK_THROWS_AS(read_npy_header(npy("{'descr': '<f4'}")), Error);
  CHECK_THROWS_AS(read_npy_header(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}")), Error);
  auto cut = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}");
  while (!cut.empty()) {
    cut.pop_back();
    CHECK_THROWS_AS(read_npy_header(cut), Error);
  }
}

}  // namespace spdl
