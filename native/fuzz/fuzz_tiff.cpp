// Directories of TIFF files: the copy without the fields that do not matter has the same values of those that do, and so
// has the one whose strips are stored, which has room for all of them.

#include <cstdlib>
#include <cstring>

#include "fuzz/target.h"
#include "image/tiff.h"
#include "media/stored_tiff.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::TiffDirectory directory(data);
  if (directory.num_entries() > 0 &&
      directory.offset_of(directory.num_entries() - 1) + spdl::TiffDirectory::kEntryBytes > data.size()) {
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
  const std::uint64_t size = std::uint64_t{reduced.number_field(256).value_or(0)} * reduced.number_field(257).value_or(0);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 22;  // not a matter of memory
  if (size > kMost) {
    return;
  }
  spdl::Buffer more;
  if (const auto stored = spdl::with_stored_strips(copy, more, 64)) {
    const spdl::TiffDirectory with_strip(*stored);
    if (with_strip.number_field(259) != 1U || stored->size() < copy.size() + size ||
        spdl::part(*stored, with_strip.number_field(273).value_or(0)).size() != with_strip.number_field(279).value_or(0)) {
      std::abort();
    }
    spdl::fuzz_touch({stored->data(), stored->size() + 64});
  }
}
