// Directories of zip archives, as npz files are: whatever the bytes are, each entry's data lies inside of them, and
// inflating it stays inside of the memory for the result.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "archive/inflate.h"
#include "archive/npy.h"
#include "archive/zip.h"
#include "base/error.h"
#include "fuzz/target.h"

namespace {

constexpr std::uint64_t kLargest = 1 << 16;

void read_header(std::span<const std::uint8_t> data) {
  try {
    spdl::read_npy_header(data);
  } catch (const spdl::Error&) {
    // One entry that is none does not hide the others.
  }
}

}  // namespace

void fuzz(std::span<const std::uint8_t> data) {
  for (const spdl::ZipEntry& entry : spdl::read_zip_directory(data)) {
    if (entry.offset > data.size() || entry.compressed_size > data.size() - entry.offset) {
      std::abort();
    }
    const auto stored = data.subspan(entry.offset, entry.compressed_size);
    spdl::fuzz_touch(stored);
    read_header(stored);
    std::vector<std::uint8_t> inflated(static_cast<std::size_t>(std::min(entry.uncompressed_size, kLargest)));
    if (spdl::inflate(stored, inflated)) {
      read_header(inflated);
    }
  }
}
