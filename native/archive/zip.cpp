#include "archive/zip.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/sniff.h"

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Signatures, and sizes of records without what varies; sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16.
constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kCentral = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocator64Size = 20;
constexpr std::size_t kLongestComment = 0xffff;
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint32_t kIn64 = 0xffffffff;  // "see the zip64 record"

Error damage(const std::string& reason) { return {ErrorKind::kArchive, "read the zip data", reason}; }

Error no_end(const std::string& detail) {
  return damage("Failed to locate the end of the central directory. " + detail);
}

// The caller has checked that it is there.
template <class T>
T load(Bytes bytes, std::size_t offset) noexcept {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | bytes[offset + i]);
  }
  return value;
}

bool has_room(Bytes bytes, std::uint64_t offset, std::uint64_t size) noexcept {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

struct Directory {
  std::uint64_t num_entries;
  std::uint64_t begin;   // where its records are
  std::uint64_t end;     // where the next thing is
  std::uint64_t prefix;  // bytes in front of the archive, which its offsets do not count
};

// Where the end record is: the last place that could be one, and best one whose comment ends where the data does.
std::optional<std::size_t> find_end(Bytes archive) noexcept {
  if (archive.size() < kEndSize) {
    return std::nullopt;
  }
  const std::size_t last = archive.size() - kEndSize;
  const std::size_t first = last > kLongestComment ? last - kLongestComment : 0;
  std::optional<std::size_t> found;
  for (std::size_t at = last + 1; at-- > first;) {
    if (archive[at] != 'P' || load<std::uint32_t>(archive, at) != kEnd) {
      continue;
    }
    if (load<std::uint16_t>(archive, at + 20) == last - at) {
      return at;
    }
    found = found ? found : at;
  }
  return found;
}

Directory read_end(Bytes archive) {
  const std::optional<std::size_t> found = find_end(archive);
  if (!found) {
    const bool is_begun = archive.size() >= 4 && load<std::uint32_t>(archive, 0) == kLocal;
    if (is_begun) {
      throw no_end("The data begins as a zip file does and is cut off, or its end is damaged.");
    }
    if (archive.size() < kEndSize) {
      throw damage("The data is not a valid zip file. It has " + std::to_string(archive.size()) + " bytes" +
                   describe_beginning(archive));
    }
    throw damage("The data is not a valid zip file. Failed to locate the end of the central directory" +
                 (describe_beginning(archive).empty() ? "." : "." + describe_beginning(archive).substr(1)));
  }
  std::size_t at = *found;
  if (load<std::uint16_t>(archive, at + 4) != load<std::uint16_t>(archive, at + 6)) {
    throw no_end("It says that the archive goes over several disks, which is not supported.");
  }
  std::uint64_t num_entries = load<std::uint16_t>(archive, at + 10);
  std::uint64_t size = load<std::uint32_t>(archive, at + 12);
  std::uint64_t offset = load<std::uint32_t>(archive, at + 16);
  if (at >= kLocator64Size && load<std::uint32_t>(archive, at - kLocator64Size) == kLocator64) {
    // The locator's offset does not count a prefix; the record itself is right in front of the locator.
    std::uint64_t at64 = load<std::uint64_t>(archive, at - kLocator64Size + 8);
    if (!has_room(archive, at64, kEnd64Size) || load<std::uint32_t>(archive, at64) != kEnd64) {
      at64 = at >= kLocator64Size + kEnd64Size ? at - kLocator64Size - kEnd64Size : archive.size();
    }
    if (!has_room(archive, at64, kEnd64Size) || load<std::uint32_t>(archive, at64) != kEnd64) {
      throw no_end("Its zip64 record is not where it should be.");
    }
    num_entries = load<std::uint64_t>(archive, at64 + 32);
    size = load<std::uint64_t>(archive, at64 + 40);
    offset = load<std::uint64_t>(archive, at64 + 48);
    at = at64;
  } else if (size == kIn64 || offset == kIn64) {
    throw no_end("Its zip64 record is missing.");
  }
  if (size > at || offset > at - size) {
    throw no_end("It says that the directory has " + std::to_string(size) + " bytes at byte " +
                 std::to_string(offset) + ", which is not in front of it.");
  }
  if (num_entries > size / kCentralSize) {
    throw no_end("It says that the directory has " + std::to_string(num_entries) + " entries in " +
                 std::to_string(size) + " bytes.");
  }
  return {num_entries, at - size, at, at - size - offset};
}

// Replaces what the record says is in its zip64 field; section 4.5.3.
void read_extra64(Bytes extra, std::uint64_t& uncompressed, std::uint64_t& compressed, std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const auto id = load<std::uint16_t>(extra, 0);
    const std::size_t size = load<std::uint16_t>(extra, 2);
    extra = extra.subspan(4);
    if (size > extra.size()) {
      return;  // some writers pad with junk
    }
    if (id == kExtra64) {
      Bytes field = extra.first(size);
      for (std::uint64_t* value : {&uncompressed, &compressed, &offset}) {
        if (*value == kIn64) {
          if (field.size() < 8) {
            throw damage("the zip64 field of an entry is too short");
          }
          *value = load<std::uint64_t>(field, 0);
          field = field.subspan(8);
        }
      }
      return;
    }
    extra = extra.subspan(size);
  }
}

// Where an entry's data is, behind its local header.
std::size_t find_data(Bytes archive, const Directory& directory, std::uint64_t local, const ZipEntry& entry,
                      std::uint64_t compressed_size) {
  const Bytes front = archive.first(static_cast<std::size_t>(directory.begin));
  const std::string shown = "entry '" + entry.name + "'";
  if (local > front.size() - directory.prefix || !has_room(front, local + directory.prefix, kLocalSize) ||
      load<std::uint32_t>(front, static_cast<std::size_t>(local + directory.prefix)) != kLocal) {
    throw damage(shown + " has no header at the offset that the directory gives");
  }
  const auto at = static_cast<std::size_t>(local + directory.prefix);
  const std::size_t name_size = load<std::uint16_t>(front, at + 26);
  const std::size_t extra_size = load<std::uint16_t>(front, at + 28);
  if (!has_room(front, at + kLocalSize, name_size + extra_size)) {
    throw damage(shown + " has a truncated header");
  }
  const Bytes name = front.subspan(at + kLocalSize, name_size);
  if (!std::equal(name.begin(), name.end(), entry.name.begin(), entry.name.end(),
                  [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); })) {
    throw damage(shown + " has a different name in its header");
  }
  const std::size_t data = at + kLocalSize + name_size + extra_size;
  if (!has_room(front, data, compressed_size)) {
    throw damage(shown + " is said to have " + std::to_string(compressed_size) + " bytes, more than there are");
  }
  return data;
}

void check_overlaps(const std::vector<ZipEntry>& entries) {
  std::vector<std::pair<std::size_t, std::size_t>> extents;
  extents.reserve(entries.size());
  for (const ZipEntry& entry : entries) {
    extents.emplace_back(entry.offset, entry.offset + entry.compressed_size);
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first < extents[i - 1].second) {
      throw damage("its entries overlap, as in a zip bomb");
    }
  }
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(Bytes archive) {
  const Directory directory = read_end(archive);
  const Bytes front = archive.first(static_cast<std::size_t>(directory.end));
  std::vector<ZipEntry> entries;
  entries.reserve(static_cast<std::size_t>(directory.num_entries));
  auto at = static_cast<std::size_t>(directory.begin);
  for (std::uint64_t i = 0; i < directory.num_entries; ++i) {
    if (!has_room(front, at, kCentralSize) || load<std::uint32_t>(front, at) != kCentral) {
      throw damage("its directory is damaged at entry " + std::to_string(i));
    }
    const std::size_t name_size = load<std::uint16_t>(front, at + 28);
    const std::size_t extra_size = load<std::uint16_t>(front, at + 30);
    const std::size_t comment_size = load<std::uint16_t>(front, at + 32);
    if (!has_room(front, at + kCentralSize, name_size + extra_size + comment_size)) {
      throw damage("its directory is truncated at entry " + std::to_string(i));
    }
    ZipEntry entry;
    const auto flags = load<std::uint16_t>(front, at + 8);
    entry.is_encrypted = (flags & 1) != 0;
    entry.is_utf8 = (flags & 0x800) != 0;
    entry.method = load<std::uint16_t>(front, at + 10);
    entry.crc32 = load<std::uint32_t>(front, at + 16);
    std::uint64_t compressed_size = load<std::uint32_t>(front, at + 20);
    entry.uncompressed_size = load<std::uint32_t>(front, at + 24);
    std::uint64_t local = load<std::uint32_t>(front, at + 42);
    const Bytes name = front.subspan(at + kCentralSize, name_size);
    entry.name.assign(name.begin(), name.end());
    read_extra64(front.subspan(at + kCentralSize + name_size, extra_size), entry.uncompressed_size, compressed_size,
                 local);
    entry.offset = find_data(archive, directory, local, entry, compressed_size);
    entry.compressed_size = static_cast<std::size_t>(compressed_size);
    entries.push_back(std::move(entry));
    at += kCentralSize + name_size + extra_size + comment_size;
  }
  check_overlaps(entries);
  return entries;
}

}  // namespace spdl
