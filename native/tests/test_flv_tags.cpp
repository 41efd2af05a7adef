#include "media/flv_tags.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

namespace spdl {
namespace {

// A file of 40 pictures and 50 packets of sound per second; every 25th picture is a key frame. All data looks like the
// beginning of a tag.
struct File {
  std::vector<std::uint8_t> bytes = {'F', 'L', 'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0};
  std::vector<std::pair<std::int64_t, std::int64_t>> keys;   // dts, position
  std::vector<std::pair<std::int64_t, std::int64_t>> sound;  // dts, position

  void put(std::uint32_t value, int num_bytes) {
    for (int i = num_bytes - 1; i >= 0; --i) {
      bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
  }
  void add(std::uint8_t type, std::initializer_list<std::uint8_t> data, std::size_t size, std::uint32_t dts) {
    put(type, 1);
    put(static_cast<std::uint32_t>(size), 3);
    put(dts & 0xffffff, 3);
    put(dts >> 24, 1);
    put(0, 3);
    const std::size_t end = bytes.size() + size;
    bytes.insert(bytes.end(), data);
    while (bytes.size() < end) {
      const std::size_t i = end - bytes.size();
      bytes.push_back(i % 16 == 0 ? 8 : i % 16 == 13 ? 40 : 0);
    }
    put(static_cast<std::uint32_t>(size + 11), 4);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }

  explicit File(int num_seconds, std::uint32_t start = 0) {
    add(18, {2, 0, 1, 'm'}, 200, 0);
    add(9, {0x17, 0}, 40, 0);  // describes the codec
    add(8, {0xaf, 0}, 4, 0);   // also describes the codec
    for (std::uint32_t ms = 0; ms < static_cast<std::uint32_t>(num_seconds) * 1000; ms += 5) {
      if (ms % 25 == 0) {
        const bool is_key = ms / 25 % 25 == 0;
        if (is_key) {
          keys.emplace_back(start + ms, size());
        }
        const auto first = static_cast<std::uint8_t>(is_key ? 0x17 : 0x27);
        add(9, {first, 1}, is_key ? 70'000 : 1000 + ms % 700, start + ms);
      }
      if (ms % 20 == 0) {
        sound.emplace_back(start + ms, size());
        add(8, {0xaf, 1}, 150 + ms % 90, start + ms);
      }
    }
  }

  std::optional<FlvPlace> find(FlvStream stream, std::int64_t dts) {
    num_bytes_read = 0;
    BlockReader reader([this](std::int64_t position, std::span<std::uint8_t> into) {
      const auto from = std::min(static_cast<std::size_t>(position), bytes.size());
      const auto count = std::min(into.size(), bytes.size() - from);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), count, into.begin());
      num_bytes_read += count;
      return count;
    });
    return find_flv_tag(stream, dts, size(), std::ref(reader));
  }
  std::size_t num_bytes_read = 0;
};

std::int64_t expected(const std::vector<std::pair<std::int64_t, std::int64_t>>& tags, std::int64_t dts) {
  return std::prev(std::upper_bound(tags.begin(), tags.end(), std::pair(dts, INT64_MAX)))->second;
}

}  // namespace

TEST_CASE("the last tag before a time is found") {
  for (const std::uint32_t start : {0u, 0x1000000u}) {
    File file(60, start);
    for (const std::int64_t dts : {59'999, 40'000, 39'999, 20'017, 5'000, 1'300, 700, 1'000'000}) {
      const auto key = file.find(FlvStream::kVideo, start + dts);
      REQUIRE(key);
      CHECK(key->position == expected(file.keys, start + dts));
      const auto sound = file.find(FlvStream::kAudio, start + dts);
      REQUIRE(sound);
      CHECK(sound->position == expected(file.sound, start + dts));
    }
    CHECK(!file.find(FlvStream::kAudio, static_cast<std::int64_t>(start) - 1));
  }
}

TEST_CASE("little of a large file is read") {
  File file(240);
  file.find(FlvStream::kVideo, 200'000);
  CHECK(file.num_bytes_read < file.bytes.size() / 10);
}

TEST_CASE("a file that is cut off, or has other data between tags, is no obstacle") {
  File file(60);
  file.bytes.resize(file.bytes.size() - 1234);
  CHECK(file.find(FlvStream::kVideo, 50'000)->position == expected(file.keys, 50'000));
  File damaged(60);
  std::fill_n(damaged.bytes.begin() + damaged.size() / 2, 100'000, std::uint8_t{8});
  for (const std::int64_t dts : {10'000, 28'000, 32'000, 50'000}) {
    const auto place = damaged.find(FlvStream::kAudio, dts);
    CHECK((place && place->dts <= dts));
  }
}

TEST_CASE("what is no FLV file has no tags") {
  File file(2);
  file.bytes[0] = 'X';
  CHECK(!file.find(FlvStream::kAudio, 1000));
  file.bytes.clear();
  CHECK(!file.find(FlvStream::kAudio, 1000));
}

}  // namespace spdl
