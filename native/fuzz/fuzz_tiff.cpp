// Directories of TIFF files: the copy without the fields that do not matter has the same values of those that do.

#include <cstdlib>
#include <cstring>

#include "fuzz/target.h"
#include "image/tiff.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::TiffDirectory directory(data);
  if (directory.num_entries() > 0 &&
      directory.offset_of(directory.num_entries() - 1) + directory.entry_bytes() > data.size()) {
    std::abort();
  }
  for (std::size_t i = 0; i < directory.num_entries(); ++i) {
    static_cast<void>(directory.first_short(directory.tag_of(i)));
  }
  spdl::Buffer memory;
  const spdl::Bytes copy = spdl::without_other_fields(data, memory);
  if (copy.size() != data.size()) {
    std::abort();
  }
  spdl::fuzz_touch(copy);
  if (directory.num_entries() == 0 || directory.offset_of(0) < 10) {
    return;  // a directory that lies on the header, which is changed with it
  }
  const spdl::TiffDirectory reduced(copy);
  for (const std::uint32_t tag : {256U, 257U, 259U, 262U, 277U}) {
    if (directory.short_field(tag) != reduced.short_field(tag)) {
      std::abort();
    }
  }
}
