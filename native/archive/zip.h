// The directory of a zip archive in memory.
//
// Zip64, comments, data descriptors and data in front of the archive are understood. Nothing is inflated here.
// Source: PKWARE APPNOTE.TXT 6.3.10.
// Plain functions; throws Error(kArchive).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spdl {

struct ZipEntry {
  std::string name;
  bool is_utf8 = false;  // else code page 437
  bool is_encrypted = false;
  unsigned method = 0;  // 0: stored; 8: deflated
  std::size_t offset = 0;  // of the data
  std::size_t compressed_size = 0;
  std::uint64_t uncompressed_size = 0;
  std::uint32_t crc32 = 0;
};

// The data of every entry lies inside `archive`, and no two entries overlap.
std::vector<ZipEntry> read_zip_directory(std::span<const std::uint8_t> archive);

}  // namespace spdl
