// Markers of JPEG: nothing outside of the data is read, and what comes behind its end does not matter.

#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "image/jpeg_facts.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::JpegFacts facts = spdl::inspect_jpeg(data);
  if (facts.width < 0 || facts.width > 65535 || facts.height < 0 || facts.height > 65535 || facts.num_components > 255) {
    std::abort();
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
