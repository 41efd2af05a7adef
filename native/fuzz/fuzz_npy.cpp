// Headers of npy files: whatever the bytes are, the data begins inside of them.

#include <cstdlib>

#include "archive/npy.h"
#include "fuzz/target.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::NpyHeader header = spdl::read_npy_header(data);
  if (header.offset > data.size() || header.shape.size() > 64 || header.descr.empty()) {
    std::abort();
  }
}
