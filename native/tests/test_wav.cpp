#include "wav/wav.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spdl {
namespace {

using File = std::vector<std::uint8_t>;

void put(File& file, std::string_view text) {
  for (const char letter : text) {
    file.push_back(static_cast<std::uint8_t>(letter));
  }
}

void put(File& file, std::uint64_t value, int num_bytes, bool is_big_endian) {
  for (int i = 0; i < num_bytes; ++i) {
    file.push_back(static_cast<std::uint8_t>(value >> 8 * (is_big_endian ? num_bytes - 1 - i : i)));
  }
}

// One second of nothing would be 8000 samples; these have the bytes 0, 1, 2 and so on.
File wav(unsigned channels, unsigned bits, unsigned block, std::size_t num_bytes, std::uint64_t stated, bool is_rifx) {
  File file;
  put(file, is_rifx ? "RIFX" : "RIFF");
  put(file, 0, 4, is_rifx);
  put(file, "WAVEfmt ");
  put(file, 16, 4, is_rifx);
  put(file, 1, 2, is_rifx);
  put(file, channels, 2, is_rifx);
  put(file, 8000, 4, is_rifx);
  put(file, std::uint64_t{8000} * block, 4, is_rifx);
  put(file, block, 2, is_rifx);
  put(file, bits, 2, is_rifx);
  put(file, "data");
  put(file, stated, 4, is_rifx);
  for (std::size_t i = 0; i < num_bytes; ++i) {
    file.push_back(static_cast<std::uint8_t>(i));
  }
  return file;
}

WavBytesAt reader_of(const File& file) {
  return [&file](std::uint64_t position, std::size_t size) {
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(position, file.size()));
    return std::span<const std::uint8_t>(file).subspan(from, std::min(size, file.size() - from));
  };
}

}  // namespace

TEST_CASE("numbers have the byte order of the file") {
  for (const bool is_rifx : {false, true}) {
    const WavHeader header = read_wav_header(wav(2, 16, 4, 40, 40, is_rifx));
    CHECK(header.is_big_endian == is_rifx);
    CHECK(header.num_channels == 2);
    CHECK(header.sample_rate == 8000);
    CHECK(header.sample_bytes == 2);
    CHECK(header.data_size == 40);
    CHECK(find_wav_samples(header, {}, {}).is_view == !is_rifx);
  }
}

TEST_CASE("the block tells the container, and what does not fit has none") {
  CHECK(read_wav_header(wav(2, 24, 6, 0, 0, false)).sample_bytes == 3);
  CHECK(read_wav_header(wav(2, 24, 8, 0, 0, false)).sample_bytes == 4);
  CHECK(read_wav_header(wav(2, 12, 4, 0, 0, false)).sample_bytes == 2);
  CHECK(read_wav_header(wav(2, 16, 0, 0, 0, false)).sample_bytes == 2);
  CHECK(read_wav_header(wav(2, 16, 3, 0, 0, false)).sample_bytes == 0);
  CHECK(read_wav_header(wav(2, 16, 6, 0, 0, false)).sample_bytes == 0);
  CHECK(read_wav_header(wav(2, 24, 4, 0, 0, false)).sample_bytes == 0);
  CHECK(read_wav_header(wav(0, 16, 4, 0, 0, false)).sample_bytes == 0);
}

TEST_CASE("24 bits are left-justified, and big-endian samples turned") {
  const File little = wav(1, 24, 3, 6, 6, false);
  const File big = wav(1, 24, 3, 6, 6, true);
  std::uint8_t out[8];
  copy_wav_samples(read_wav_header(little), find_wav_samples(read_wav_header(little), {}, {}), little, out);
  CHECK(std::vector<int>(out, out + 8) == std::vector<int>{0, 0, 1, 2, 0, 3, 4, 5});
  copy_wav_samples(read_wav_header(big), find_wav_samples(read_wav_header(big), {}, {}), big, out);
  CHECK(std::vector<int>(out, out + 8) == std::vector<int>{0, 2, 1, 0, 0, 5, 4, 3});
  const File words = wav(1, 32, 4, 8, 8, true);
  copy_wav_samples(read_wav_header(words), find_wav_samples(read_wav_header(words), {}, {}), words, out);
  CHECK(std::vector<int>(out, out + 8) == std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4});
}

TEST_CASE("sizes that were never filled in reach to the end") {
  for (const std::uint64_t stated : {std::uint64_t{0}, std::uint64_t{0xffffffff}, std::uint64_t{0x7ffff000}}) {
    const WavHeader header = read_wav_header(wav(1, 16, 2, 41, stated, false));
    CHECK(!header.stated_size);
    CHECK(header.data_size == 41);
    CHECK(find_wav_samples(header, {}, {}).num_samples == 20);
  }
}

TEST_CASE("a file that ends early tells what is there, but is no whole file") {
  const File file = wav(1, 16, 2, 37, 40, false);
  CHECK_THROWS_AS(read_wav_header(file), Error);
  const WavHeader header = find_wav_header(reader_of(file), file.size());
  CHECK(header.data_size == 37);
  CHECK(header.stated_size == 40);
}

TEST_CASE("a source of unknown length has what it states") {
  const File file = wav(1, 16, 2, 0, 40, false);
  CHECK(find_wav_header(reader_of(file), std::nullopt).data_size == 40);
  const File endless = wav(1, 16, 2, 0, 0xffffffff, false);
  CHECK(find_wav_header(reader_of(endless), std::nullopt).data_size > (std::uint64_t{1} << 60));
}

}  // namespace spdl
