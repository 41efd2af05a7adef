#include "image/jpeg_restarts.h"

#include <cstring>
#include <numeric>

namespace spdl {

std::optional<std::size_t> find_restart_interval(Bytes scan, std::size_t index, std::size_t last) noexcept {
  constexpr std::size_t kFirstRestart = 0xd0;
  std::size_t begin = 0;
  std::size_t at = 0;
  for (std::size_t interval = 0; interval < last;) {
    const void* found = at + 1 < scan.size() ? std::memchr(scan.data() + at, 0xff, scan.size() - 1 - at) : nullptr;
    if (found == nullptr) {
      return std::nullopt;
    }
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - scan.data()) + 1;
    const std::size_t code = scan[at];
    if (code == 0xff) {  // a fill byte was before it
      continue;
    }
    ++at;
    if (code == 0) {  // a stuffed byte
      continue;
    }
    if (code != kFirstRestart + interval % 8) {
      return std::nullopt;
    }
    ++interval;
    if (interval == index) {
      begin = at;
    }
  }
  return begin;
}

std::size_t restart_row(std::size_t row, std::size_t row_size, std::size_t interval_size) noexcept {
  return row - row % (interval_size / std::gcd(row_size, interval_size));
}

}  // namespace spdl
