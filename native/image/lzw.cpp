#include "image/lzw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace spdl {
namespace {

constexpr unsigned kMostBits = 12;
constexpr std::size_t kWord = sizeof(std::uint64_t);

// A string of the table. All but the symbols themselves were written when they were entered, so the longer ones are found
// there; the front is kept here, because most are short and what was just written is slow to read.
struct String {
  std::uint64_t front;  // its first bytes, the first of them lowest
  std::uint32_t length;
  std::uint32_t at;
};

// Both begin where `string` does: with one byte more, the first of `other`.
inline String extended(String string, std::uint64_t other) noexcept {
  const std::uint64_t last = string.length < kWord ? (other & 0xff) << (8 * string.length) : 0;
  return {string.front | last, string.length + 1, string.at};
}

constexpr std::size_t round_up_to_words(std::size_t size) noexcept { return (size + kWord - 1) / kWord * kWord; }

// With the lowest byte first in memory.
std::uint64_t in_memory_order(std::uint64_t word) noexcept {
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

// Eight bytes, the one at `at` lowest; zeros for what is not there.
std::uint64_t word_at(Bytes bytes, std::size_t at) noexcept {
  std::uint64_t word = 0;
  if (bytes.size() >= kWord && at <= bytes.size() - kWord) {
    std::memcpy(&word, bytes.data() + at, kWord);
    return in_memory_order(word);
  }
  for (std::size_t i = 0; i < kWord; ++i) {
    word |= std::uint64_t{byte_at(bytes, at + i)} << (8 * i);
  }
  return word;
}

template <LzwKind kind>
unsigned code_at(Bytes codes, std::size_t bit, unsigned width) noexcept {
  const std::uint64_t word = word_at(codes, bit / 8);
  if constexpr (kind == LzwKind::kTiff) {
    return static_cast<unsigned>(__builtin_bswap64(word) << (bit % 8) >> (64 - width));
  } else {
    return static_cast<unsigned>(word >> (bit % 8)) & ((1U << width) - 1);
  }
}

// The string to its place, as much of it as there is room for.
inline void write(String string, std::span<std::uint8_t> out, std::size_t to) noexcept {
  const std::size_t room = out.size() - to;
  std::uint8_t* const target = out.data() + to;
  if (room < round_up_to_words(string.length)) [[unlikely]] {
    for (std::size_t i = 0; i < std::min<std::size_t>(string.length, room); ++i) {
      target[i] = i < kWord ? static_cast<std::uint8_t>(string.front >> (8 * i)) : out[string.at + i];
    }
    return;
  }
  const std::uint64_t front = in_memory_order(string.front);
  std::memcpy(target, &front, kWord);
  // What it is copied from ends one byte behind where it goes at most: words do not overlap, for it is longer than one.
  const std::uint8_t* const source = out.data() + string.at;
  for (std::size_t i = kWord; i < string.length; i += kWord) {
    std::memcpy(target + i, source + i, kWord);
  }
}

template <LzwKind kind>
bool unpack(Bytes codes, unsigned bits, std::span<std::uint8_t> out) noexcept {
  constexpr unsigned kEarly = kind == LzwKind::kTiff ? 1 : 0;
  const unsigned clear = 1U << bits;
  std::array<String, std::size_t{1} << kMostBits> table;
  for (unsigned i = 0; i < clear; ++i) {
    table[i] = {i, 1, 0};
  }
  const std::size_t num_bits = codes.size() * 8;
  std::size_t bit = 0;
  unsigned width = bits + 1;
  unsigned grows_at = (2U << bits) - kEarly;
  unsigned next = clear + 2;  // the code that gets the next string
  unsigned largest = clear - 1;
  String before{};  // what was written last; of length 0: nothing since the table was cleared
  std::size_t done = 0;
  while (done < out.size()) {
    if (bit + width > num_bits) {
      return false;
    }
    const unsigned code = code_at<kind>(codes, bit, width);
    bit += width;
    if ((code | 1) == clear + 1 || code > largest) [[unlikely]] {
      if (code != clear) {
        return false;
      }
      width = bits + 1;
      grows_at = (2U << bits) - kEarly;
      next = clear + 2;
      largest = clear - 1;
      before.length = 0;
      continue;
    }
    // Field by field: what was just written in parts is slow to read as one.
    String string{table[code].front, table[code].length, table[code].at};
    if (before.length != 0 && next < table.size()) [[likely]] {
      if (code == next) [[unlikely]] {
        string = extended(before, before.front);
      }
      table[next] = extended(before, string.front);
      ++next;
      if (next == grows_at && width < kMostBits) [[unlikely]] {
        ++width;
        grows_at = (1U << width) - kEarly;
      }
    }
    largest = next;
    write(string, out, done);
    before = {string.front, string.length, static_cast<std::uint32_t>(done)};
    done += string.length;
  }
  return true;
}

}  // namespace

bool unpack_lzw(Bytes codes, LzwKind kind, int bits, std::span<std::uint8_t> out) noexcept {
  if (bits < 2 || bits > kLzwBits || out.size() > UINT32_MAX) {
    return false;
  }
  const auto width = static_cast<unsigned>(bits);
  return kind == LzwKind::kTiff ? unpack<LzwKind::kTiff>(codes, width, out) : unpack<LzwKind::kGif>(codes, width, out);
}

}  // namespace spdl
