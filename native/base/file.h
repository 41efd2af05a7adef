// Files, read by interruptible system calls, and whole files read into reusable memory.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/watch.h"

namespace spdl {

// Encoded pictures larger than this are refused without reading them: data this large is not a picture.
inline constexpr std::size_t kMaxEncodedBytes = std::size_t{1} << 30;

// A file that is open for reading. Neither opening nor reading a pipe or a device waits longer than a Watch allows. Owns
// the descriptor. One thread per object.
class File {
 public:
  // Throws Error: kSourceNotFound, or kOpen for a folder or an unreadable file.
  explicit File(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Whether it can be read from any position; a pipe cannot.
  bool is_seekable() const noexcept { return is_seekable_; }
  // The current size in bytes; none for a pipe or a device. 0 may mean that the system creates the content on read.
  std::optional<std::uint64_t> size() const noexcept;
  // The size when the file was opened.
  std::optional<std::uint64_t> size_at_first() const noexcept;
  // The first bytes of a regular file, as many as exist and fit; none for anything else. Does not move the position.
  std::span<const std::uint8_t> start(std::span<std::uint8_t> into) const noexcept;

  // The number of bytes read, 0 at the end; or a negated errno: -ECANCELED once the watch is over.
  std::int64_t read(std::uint8_t* into, std::size_t size, Watch& watch) noexcept;
  // As lseek(2): the new position, or a negated errno.
  std::int64_t seek(std::int64_t offset, int whence) noexcept;

 private:
  int fd_;
  bool is_regular_ = false;
  bool is_seekable_ = false;
  std::int64_t first_size_ = 0;
};

// Reads the file at `path` into `into`. The result is a view of `into`, followed by at least one byte that may be read.
// `timeout`: the limit in seconds. A file larger than `most` bytes is not read at all if its size is known, else not to
// its end. Throws Error: kSourceNotFound, kTimeout, or kOpen for a folder, an empty file, one that is too large, or one
// that cannot be read; Cancelled.
std::span<const std::uint8_t> read_file(const std::string& path, Buffer& into,
                                        std::optional<double> timeout = std::nullopt,
                                        std::size_t most = kMaxEncodedBytes);

// The first bytes of a regular file, as many as exist and fit. None if it is not a regular file or cannot be read.
std::span<const std::uint8_t> read_start(const std::string& path, std::span<std::uint8_t> into) noexcept;

// The size of a regular file in bytes, without opening it; 0 if it is not a regular file or does not exist.
std::uint64_t file_size(const std::string& path) noexcept;

// Asks the system to read the start of a regular file into its cache, and does not wait. Does nothing for files that
// are not regular or cannot be read.
void read_ahead(const std::string& path) noexcept;

// How much this thread has read from disks so far, in the system's unit; always 0 where the system does not report it.
std::uint64_t disk_input_of_thread() noexcept;

// Whether it begins like `http://…` or `data:…` (RFC 3986, 3.1). A file can also have such a name.
bool looks_like_url(const std::string& path) noexcept;

}  // namespace spdl
