// Tar archives: which regular files are in them, and where.
//
// POSIX ustar and PAX, GNU (long names, base-256 numbers) and V7 headers are understood. Directories, links, devices
// and unknown entries are skipped. Sources: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block"; the
// GNU tar manual, "Basic Tar Format"; and for what these leave open, tarfile of the standard library. Values without
// locks; one thread per object. All of it throws Error(kArchive).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace spdl {

inline constexpr std::size_t kTarBlock = 512;

// Number of zero bytes between the end of data of this size and the next header.
constexpr std::uint64_t tar_padding(std::uint64_t size) noexcept { return (kTarBlock - size % kTarBlock) % kTarBlock; }

// The error for data that ends before the archive does.
Error tar_ends_early(const std::string& detail);

bool is_tar_zeros(std::span<const std::uint8_t, kTarBlock> block) noexcept;
// Whether a block that is not zeros is a header: its checksum is right.
bool is_tar_header(std::span<const std::uint8_t, kTarBlock> block) noexcept;

// What was unusual about the end of an archive that was read completely. All readers warn of it.
struct TarEnd {
  std::optional<std::uint64_t> without_zeros;  // the data ended at this byte, where a header or the end was due
  std::optional<std::uint64_t> ignored;        // another archive begins at this byte
};
// The text of the warning; empty if the end was as usual.
std::string describe_tar_end(const TarEnd& end);

// Parses headers one after the other, independent of where their bytes come from.
class TarParser {
 public:
  // What follows a header.
  enum class DataKind {
    kMember,     // the data of the regular file `name()`
    kIgnored,    // data of anything else
    kExtension,  // data for `read_extension`
    kEnd,        // nothing: the archive has ended
  };
  struct Step {
    DataKind kind;
    std::uint64_t size;  // of the data, without its padding
  };

  // `position` is the block's place in the archive, for messages.
  Step read_header(std::span<const std::uint8_t, kTarBlock> block, std::uint64_t position);
  // Forgets what holds for the rest of an archive: another one follows behind its end.
  void begin_archive() { global_ = {}; }
  void read_extension(std::span<const std::uint8_t> data);
  // As bytes of the archive, mostly UTF-8. Valid until the next header is read.
  std::string& name() noexcept { return name_; }
  // Whether extensions were read whose member has not come yet.
  bool expects_member() const noexcept { return has_local_; }

 private:
  // What extensions say of a member instead of its header.
  struct Overrides {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
    bool is_sparse = false;
  };

  Step announce(std::span<const std::uint8_t, kTarBlock> block, std::uint64_t size, char type);
  void read_pax(std::string_view records, Overrides& overrides);

  Overrides global_;
  Overrides local_;
  std::optional<std::string> long_name_;  // GNU's
  bool has_local_ = false;
  char extension_ = 0;
  std::string name_;
};

struct TarMember {
  std::string name;
  std::size_t offset = 0;
  std::size_t size = 0;
};

// The members of an archive in memory, which must outlive this.
class TarReader {
 public:
  // With `ignores_zeros`, archives that follow each other are read as one.
  TarReader(std::span<const std::uint8_t> data, bool ignores_zeros) noexcept
      : data_(data), ignores_zeros_(ignores_zeros) {}

  // Reads the next member; false at the end. The data may also end where a header would be.
  bool next(TarMember& member);
  // After `next` has returned false.
  const TarEnd& end() const noexcept { return end_; }

 private:
  // At zeros: moves behind them, to the next archive, if there is one and it is to be read.
  bool has_other_archive();

  std::span<const std::uint8_t> data_;
  bool ignores_zeros_;
  bool has_zeros_ = false;  // the last block was zeros
  TarEnd end_;
  std::size_t position_ = 0;
  bool is_cut_ = false;  // in the padding behind the last member
  TarParser parser_;
};

}  // namespace spdl
