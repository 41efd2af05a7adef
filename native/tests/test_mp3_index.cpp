#include "media/mp3_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "media/block_reader.h"
#include "media/mpeg_audio.h"

namespace spdl {
namespace {

using Header = std::array<std::uint8_t, kMpegAudioHeader>;

// MPEG-1 layer III at 44.1 kHz; `bit_rate_index` 9: 128 kbit/s.
Header layer3(int bit_rate_index, int padding = 0) {
  return {0xff, 0xfb, static_cast<std::uint8_t>(bit_rate_index << 4 | padding << 1), 0x44};
}

struct File {
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> frames;

  void add(const Header& header) {
    frames.push_back(static_cast<std::int64_t>(bytes.size()));
    bytes.insert(bytes.end(), header.begin(), header.end());
    bytes.resize(bytes.size() + parse_mpeg_audio(header)->num_bytes - header.size(), 0xff);
  }
  std::size_t read(std::int64_t position, std::span<std::uint8_t> into) const {
    const auto from = std::min(static_cast<std::size_t>(position), bytes.size());
    const auto size = std::min(into.size(), bytes.size() - from);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), size, into.begin());
    return size;
  }
  BlockReader reader() const {
    return BlockReader([this](std::int64_t position, std::span<std::uint8_t> into) { return read(position, into); });
  }
};

File varied(int num_frames) {
  File file;
  file.bytes.resize(100);
  for (int i = 0; i < num_frames; ++i) {
    file.add(layer3(1 + i * 7 % 14, i % 2));
  }
  return file;
}

}  // namespace

TEST_CASE("the length of a frame follows from its header") {
  const auto length = [](const Header& header) { return parse_mpeg_audio(header)->num_bytes; };
  CHECK(length(layer3(9)) == 417);
  CHECK(length(layer3(9, 1)) == 418);
  CHECK(length({0xff, 0xff, 0xc2, 0x44}) == 420);  // layer I, 384 kbit/s, padded
  CHECK(length({0xff, 0xfd, 0xa4, 0x44}) == 576);  // layer II, 192 kbit/s, 48 kHz
  CHECK(length({0xff, 0xf3, 0x14, 0xc4}) == 24);   // MPEG-2 layer III, 8 kbit/s, 24 kHz
  CHECK(length({0xff, 0xe3, 0x18, 0xc4}) == 72);   // MPEG-2.5 layer III, 8 kbit/s, 8 kHz
}

TEST_CASE("reserved values and free format are not headers") {
  CHECK(!parse_mpeg_audio(Header{0xff, 0xfb, 0x04, 0x44}));  // free format
  CHECK(!parse_mpeg_audio(Header{0xff, 0xfb, 0xf4, 0x44}));  // bit rate
  CHECK(!parse_mpeg_audio(Header{0xff, 0xfb, 0x9c, 0x44}));  // sample rate
  CHECK(!parse_mpeg_audio(Header{0xff, 0xeb, 0x94, 0x44}));  // version
  CHECK(!parse_mpeg_audio(Header{0xff, 0xf9, 0x94, 0x44}));  // layer
  CHECK(!parse_mpeg_audio(Header{0xfe, 0xfb, 0x94, 0x44}));
}

TEST_CASE("frames of different lengths are found in any order") {
  const File file = varied(1000);
  BlockReader reader = file.reader();
  const BytesAt bytes_at = std::ref(reader);
  Mp3Index index(100, layer3(1));
  for (const std::int64_t number : {500, 501, 3, 999, 64, 63, 128, 998, 0}) {
    CHECK(index.find(number, bytes_at) == file.frames[static_cast<std::size_t>(number)]);
  }
  CHECK(!index.find(1000, bytes_at));
  CHECK(!index.find(-1, bytes_at));
  CHECK(index.num_found() == 1000);
}

TEST_CASE("the chain of frames ends at what is no frame of its kind") {
  for (const Header& other : {Header{0xff, 0xfb, 0x94, 0x44}, Header{'T', 'A', 'G', 0}}) {
    File file = varied(100);
    file.bytes.insert(file.bytes.end(), other.begin(), other.end());
    file.bytes.resize(file.bytes.size() + 5000);
    BlockReader reader = file.reader();
    Mp3Index index(100, layer3(1));
    CHECK(!index.find(100, std::ref(reader)));
    CHECK(index.num_found() == 100);
    CHECK(index.find(99, std::ref(reader)) == file.frames[99]);
  }
}

TEST_CASE("only headers that are asked for are read") {
  const File file = varied(1000);
  std::int64_t most = 0;
  Mp3Index index(100, layer3(1));
  const BytesAt bytes_at = [&](std::int64_t position, std::size_t size) {
    most = std::max(most, position);
    return std::span(file.bytes).subspan(static_cast<std::size_t>(position), size);
  };
  index.find(300, bytes_at);
  CHECK(most == file.frames[300]);
}

}  // namespace spdl
