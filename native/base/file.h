// Files, read by system calls that can be interrupted, and whole files in memory that is used again.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/watch.h"

namespace spdl {

// Encoded pictures larger than this are refused: what is that large is not a picture, and must not be read to find out.
inline constexpr std::size_t kMaxEncodedBytes = std::size_t{1} << 30;

// A file that is open for reading. Neither opening nor reading a pipe or a device waits longer than a Watch allows. Owns
// the descriptor. One thread per object.
class File {
 public:
  // Throws Error: kSourceNotFound, or kOpen for what is a folder or cannot be read.
  explicit File(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Whether it can be read from any position; a pipe cannot.
  bool is_seekable() const noexcept { return is_seekable_; }
  // In bytes, as it is now; nothing for a pipe or a device. 0 may mean that the system makes its content when it is read.
  std::optional<std::uint64_t> size() const noexcept;
  // The same, as it was when the file was opened.
  std::optional<std::uint64_t> size_at_first() const noexcept;
  // The first bytes of a regular file, as many as there are and fit; none of anything else. Does not move the position.
  std::span<const std::uint8_t> start(std::span<std::uint8_t> into) const noexcept;

  // How many bytes were read, 0 at the end; or an errno, negated: -ECANCELED once the watch is over.
  std::int64_t read(std::uint8_t* into, std::size_t size, Watch& watch) noexcept;
  // As lseek(2): the new position, or an errno, negated.
  std::int64_t seek(std::int64_t offset, int whence) noexcept;

 private:
  int fd_;
  bool is_regular_ = false;
  bool is_seekable_ = false;
  std::int64_t first_size_ = 0;
};

// Reads the file at `path` into `into`. The result is a view of `into`, followed by at least one byte that may be read.
// `timeout`: seconds that it may take. What is larger than `most` bytes is not read to its end, and not at all where the file
// says so. Throws Error: kSourceNotFound, kTimeout, or kOpen for what is a folder, is empty, too large, or cannot be read;
// Cancelled.
std::span<const std::uint8_t> read_file(const std::string& path, Buffer& into,
                                        std::optional<double> timeout = std::nullopt,
                                        std::size_t most = kMaxEncodedBytes);

// The first bytes of a regular file, as many as there are and fit. None for what is not one, or cannot be read.
std::span<const std::uint8_t> read_start(const std::string& path, std::span<std::uint8_t> into) noexcept;

// The size of a regular file in bytes, without opening it; 0 for what is not one, or cannot be found.
std::uint64_t file_size(const std::string& path) noexcept;

// Has the system read the start of a regular file into its cache, without waiting for it. Files that are not regular,
// or cannot be read, are left alone.
void read_ahead(const std::string& path) noexcept;

// How much this thread has had read from disks so far, in units of the system; always 0 where it does not say.
std::uint64_t disk_input_of_thread() noexcept;

// Whether it begins as `http://…` or `data:…` do (RFC 3986, 3.1). A file may have such a name all the same.
bool looks_like_url(const std::string& path) noexcept;

}  // namespace spdl
