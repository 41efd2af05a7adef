#include "archive/zip.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

namespace spdl {
namespace {

using File = std::vector<std::uint8_t>;

void put(File& file, std::uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) {
    file.push_back(i < 8 ? static_cast<std::uint8_t>(value >> (8 * i)) : 0);
  }
}

void put(File& file, const std::string& text) { file.insert(file.end(), text.begin(), text.end()); }

// One stored entry: APPNOTE.TXT 4.3.7 (local header), 4.3.12 (directory), 4.3.16 (its end).
File zip_of(const std::string& name, const std::string& data, std::uint32_t claimed_offset = 0) {
  File file;
  const auto fields = [&] {
    put(file, 0, 2);  // flags
    put(file, 0, 2);  // stored
    put(file, 0, 4);  // time and date
    put(file, 0x12345678, 4);
    put(file, data.size(), 4);
    put(file, data.size(), 4);
    put(file, name.size(), 2);
    put(file, 0, 2);
  };
  put(file, 0x04034b50, 4);
  put(file, 20, 2);
  fields();
  put(file, name);
  put(file, data);
  const std::size_t directory = file.size();
  put(file, 0x02014b50, 4);
  put(file, 20, 2);
  put(file, 20, 2);
  fields();
  put(file, 0, 2 + 2 + 2 + 4);
  put(file, claimed_offset, 4);
  put(file, name);
  const std::size_t size = file.size() - directory;
  put(file, 0x06054b50, 4);
  put(file, 0, 4);
  put(file, 1, 2);
  put(file, 1, 2);
  put(file, size, 4);
  put(file, directory, 4);
  put(file, 0, 2);
  return file;
}

}  // namespace

TEST_CASE("an entry is found where its data is") {
  const File file = zip_of("a.npy", "hello");
  const auto entries = read_zip_directory(file);
  REQUIRE(entries.size() == 1);
  const ZipEntry& entry = entries.front();
  CHECK(entry.name == "a.npy");
  CHECK(entry.crc32 == 0x12345678);
  CHECK(entry.compressed_size == 5);
  CHECK(file[entry.offset] == 'h');
}

TEST_CASE("data in front of the archive moves every offset") {
  File file = zip_of("a", "hello");
  file.insert(file.begin(), 100, 0);
  const auto entries = read_zip_directory(file);
  REQUIRE(entries.size() == 1);
  CHECK(file[entries.front().offset] == 'h');
}

TEST_CASE("entries outside of the archive, and cut archives, are errors") {
  CHECK_THROWS_AS(read_zip_directory(zip_of("a", "hello", 1000)), Error);
  CHECK_THROWS_AS(read_zip_directory(zip_of("a", "hello", 0xfffffffe)), Error);
  const File file = zip_of("a", "hello");
  for (std::size_t size = 0; size < file.size(); ++size) {
    CHECK_THROWS_AS(read_zip_directory(std::span(file).first(size)), Error);
  }
}

}  // namespace spdl
