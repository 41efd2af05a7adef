#include "image/jpeg_restarts.h"

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

namespace spdl {
namespace {

using Scan = std::vector<std::uint8_t>;

TEST_CASE("an interval begins behind its marker, whatever stuffed and fill bytes there are") {
  const Scan scan = {1, 0xff, 0, 2, 0xff, 0xd0, 3, 0xff, 0xff, 0xd1, 0xff, 0, 0xff, 0xd2};
  CHECK(find_restart_interval(scan, 0, 3) == 0);
  CHECK(find_restart_interval(scan, 1, 1) == 6);
  CHECK(find_restart_interval(scan, 2, 3) == 10);
  CHECK(find_restart_interval(scan, 3, 3) == 14);
}

TEST_CASE("markers are numbered from 0 to 7 and again") {
  Scan scan;
  for (int i = 0; i < 20; ++i) {
    scan.insert(scan.end(), {7, 0xff, static_cast<std::uint8_t>(0xd0 + i % 8)});
  }
  for (std::size_t i = 0; i <= 20; ++i) {
    CHECK(find_restart_interval(scan, i, 20) == 3 * i);
  }
}

TEST_CASE("nothing is found behind a marker that is missing, misnumbered or of another kind, nor in front of one") {
  for (const std::uint8_t code : std::initializer_list<std::uint8_t>{0xd0, 0xd2, 0xd9, 0xe0, 0x01}) {
    const Scan scan = {1, 0xff, 0xd0, 2, 0xff, code, 3, 0xff, 0xd2, 4};
    CHECK(find_restart_interval(scan, 1, 1) == 3);
    CHECK_FALSE(find_restart_interval(scan, 1, 2).has_value());
    CHECK_FALSE(find_restart_interval(scan, 2, 2).has_value());
  }
  for (const Scan& scan : {Scan{}, Scan{0xff}, Scan{1, 0xff}, Scan{0xff, 0xff}, Scan{0xff, 0}}) {
    CHECK_FALSE(find_restart_interval(scan, 1, 1).has_value());
  }
}

TEST_CASE("a row can be started at where an interval begins with it") {
  for (std::size_t row_size = 1; row_size < 20; ++row_size) {
    for (std::size_t interval = 1; interval < 40; ++interval) {
      std::size_t last = 0;
      for (std::size_t row = 0; row < 50; ++row) {
        last = row * row_size % interval == 0 ? row : last;
        CHECK(restart_row(row, row_size, interval) == last);
      }
    }
  }
}

}  // namespace
}  // namespace spdl
