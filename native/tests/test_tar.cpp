#include "archive/tar.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace spdl {
namespace {

using File = std::vector<std::uint8_t>;

// POSIX.1-2017, pax, "ustar Interchange Format".
void add(File& file, const std::string& name, const std::string& data, char type = '0') {
  std::vector<char> header(kTarBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  char size[12];
  std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(data.size()));
  put(0, name);
  put(124, size);
  put(148, "        ");
  header[156] = type;
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char each : header) {
    sum += static_cast<unsigned char>(each);
  }
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  put(148, checksum);
  header[155] = ' ';
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), data.begin(), data.end());
  file.resize(file.size() + tar_padding(data.size()));
}

std::vector<std::string> names_in(const File& file, bool ignores_zeros = false) {
  std::vector<std::string> names;
  TarReader reader(file, ignores_zeros);
  TarMember member;
  while (reader.next(member)) {
    names.push_back(member.name);
  }
  return names;
}

}  // namespace

TEST_CASE("regular files are found, and where their data is") {
  File file;
  add(file, "a.txt", "hello");
  add(file, "folder/", "", '5');
  add(file, "folder/b", std::string(600, 'x'));
  file.resize(file.size() + 2 * kTarBlock);
  TarReader reader(file, false);
  TarMember member;
  REQUIRE(reader.next(member));
  CHECK(member.name == "a.txt");
  const auto data = file.begin() + static_cast<std::ptrdiff_t>(member.offset);
  CHECK(std::string(data, data + static_cast<std::ptrdiff_t>(member.size)) == "hello");
  REQUIRE(reader.next(member));
  CHECK(member.name == "folder/b");
  CHECK(member.size == 600);
  CHECK_FALSE(reader.next(member));
}

TEST_CASE("a PAX record replaces the name") {
  File file;
  add(file, "header", "21 path=a longer name\n", 'x');
  add(file, "short", "1");
  // Its length counts itself: a wrong one is damage.
  CHECK_THROWS_AS(names_in(file), Error);
  file.clear();
  add(file, "header", "22 path=a longer name\n", 'x');
  add(file, "short", "1");
  CHECK(names_in(file) == std::vector<std::string>{"a longer name"});
}

TEST_CASE("archives behind the first one are told or read") {
  File file;
  add(file, "a", "1");
  const std::size_t end = file.size();
  TarReader cut(file, false);
  TarMember member;
  REQUIRE(cut.next(member));
  CHECK_FALSE(cut.next(member));
  CHECK(cut.end().without_zeros == end);
  file.resize(end + 3 * kTarBlock);
  add(file, "b", "2");
  TarReader first(file, false);
  REQUIRE(first.next(member));
  CHECK_FALSE(first.next(member));
  CHECK(first.end().ignored == end + 3 * kTarBlock);
  CHECK_FALSE(first.end().without_zeros);
  CHECK(names_in(file, true) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("an archive cut at any place gives members or an error, never more") {
  File file;
  add(file, "a", "12345");
  add(file, "b", "67890");
  for (std::size_t size = 0; size <= file.size(); ++size) {
    const File cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    std::size_t num_members = 0;
    try {
      num_members = names_in(cut).size();
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kArchive);
    }
    CHECK(num_members <= size / (2 * kTarBlock));
  }
}

}  // namespace spdl
