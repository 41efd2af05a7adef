#include "media/block_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace spdl {

TEST_CASE("a block reader gives the bytes of its source, wherever they are asked for") {
  std::vector<std::uint8_t> file;
  for (int i = 0; i < 300'000; ++i) {
    file.push_back(static_cast<std::uint8_t>(i * 31 + i / 251));
  }
  int num_reads = 0;
  BlockReader reader([&](std::int64_t position, std::span<std::uint8_t> into) {
    ++num_reads;
    const auto from = std::min(static_cast<std::size_t>(position), file.size());
    const auto size = std::min(into.size(), file.size() - from);
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(from), size, into.begin());
    return size;
  });
  for (const std::int64_t position : {0, 65'530, 65'536, 250'000, 249'990, 299'990, 10, 65'535}) {
    const auto bytes = reader(position, 10);
    REQUIRE(bytes.size() == 10);
    CHECK(std::equal(bytes.begin(), bytes.end(), file.begin() + position));
  }
  CHECK(reader(299'995, 10).size() == 5);
  CHECK(reader(300'000, 10).empty());
  CHECK(reader(400'000, 10).empty());
  num_reads = 0;
  for (std::int64_t position = 200'000; position > 100'000; position -= 100) {
    CHECK(reader(position, 10)[0] == file[static_cast<std::size_t>(position)]);
  }
  CHECK(num_reads <= 5);  // blocks of 32 KiB
}

}  // namespace spdl
