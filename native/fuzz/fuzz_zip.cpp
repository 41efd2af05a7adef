// Directories of zip archives, as npz files are: whatever the bytes are, each entry's data lies inside of them.

#include <cstdlib>

#include "archive/npy.h"
#include "archive/zip.h"
#include "base/error.h"
#include "fuzz/target.h"

void fuzz(std::span<const std::uint8_t> data) {
  for (const spdl::ZipEntry& entry : spdl::read_zip_directory(data)) {
    if (entry.offset > data.size() || entry.compressed_size > data.size() - entry.offset) {
      std::abort();
    }
    const auto stored = data.subspan(entry.offset, entry.compressed_size);
    spdl::fuzz_touch(stored);
    try {
      spdl::read_npy_header(stored);
    } catch (const spdl::Error&) {
      // One entry that is none does not hide the others.
    }
  }
}
