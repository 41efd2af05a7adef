// Markers of JPEG: nothing outside of the data is read, and what comes behind its end does not matter.

#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "image/jpeg_facts.h"
#include "image/jpeg_restarts.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::JpegFacts facts = spdl::inspect_jpeg(data);
  if (facts.width < 0 || facts.width > 65535 || facts.height < 0 || facts.height > 65535 || facts.num_components > 255) {
    std::abort();
  }
  if (facts.height_at != 0 && spdl::big_endian(data, facts.height_at, 2) != static_cast<std::uint32_t>(facts.height)) {
    std::abort();
  }
  std::size_t at = 0;
  for (std::size_t interval = 1; interval < 20; ++interval) {
    const auto begin = spdl::find_restart_interval(data, interval, interval);
    if (!begin) {
      break;
    }
    const std::size_t marker = 0xd0 + (interval - 1) % 8;
    if (*begin < at + 2 || *begin > data.size() || data[*begin - 1] != marker || data[*begin - 2] != 0xff) {
      std::abort();
    }
    at = *begin;
  }
  static_cast<void>(spdl::misread_because(facts));
  if (spdl::has_end_marker(data)) {
    std::vector<std::uint8_t> longer(data.begin(), data.end());
    longer.push_back(0xff);
    if (!spdl::has_end_marker(longer)) {
      std::abort();
    }
  }
}
