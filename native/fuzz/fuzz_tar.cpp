// Members of tar archives: whatever the bytes are, each lies inside of them, behind the one before.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "archive/tar.h"
#include "base/error.h"
#include "fuzz/target.h"

namespace {

void read_members(std::span<const std::uint8_t> data) {
  spdl::TarReader reader(data, true);
  spdl::TarMember member;
  std::size_t end = 0;
  while (reader.next(member)) {
    if (member.offset < end + spdl::kTarBlock || member.offset > data.size() ||
        member.size > data.size() - member.offset) {
      std::abort();
    }
    end = member.offset + member.size;
    spdl::fuzz_touch(data.subspan(member.offset, member.size));
  }
}

// Damage seldom has the right checksum, and what is behind that check is to be reached too.
std::vector<std::uint8_t> with_checksums(std::span<const std::uint8_t> data) {
  std::vector<std::uint8_t> copy(data.begin(), data.end());
  for (std::size_t at = 0; copy.size() - at >= spdl::kTarBlock; at += spdl::kTarBlock) {
    constexpr std::size_t kChecksum = 148;
    std::memset(copy.data() + at + kChecksum, ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < spdl::kTarBlock; ++i) {
      sum += copy[at + i];
    }
    if (sum != 8 * ' ') {  // zeros stay zeros
      char text[8];
      std::snprintf(text, sizeof(text), "%06o", sum);
      std::memcpy(copy.data() + at + kChecksum, text, 7);
    } else {
      std::memset(copy.data() + at + kChecksum, 0, 8);
    }
  }
  return copy;
}

}  // namespace

void fuzz(std::span<const std::uint8_t> data) {
  try {
    read_members(with_checksums(data));
  } catch (const spdl::Error&) {
    // As good an answer as members.
  }
  read_members(data);
}
