// Whole files: whatever their size is beside the most that may be read, they arrive complete or are refused, from files and
// from pipes, into memory that an earlier file left.
//
// The data is the limit, in two bytes, and the content.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "fuzz/target.h"

namespace {

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

void expect(bool is_so) {
  if (!is_so) {
    std::abort();
  }
}

void write_all(int fd, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    expect(count > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void read_and_compare(int fd, std::span<const std::uint8_t> content, std::size_t most) {
  static spdl::Buffer scratch;  // as those of threads, it keeps the size of an earlier file
  std::optional<std::span<const std::uint8_t>> read;
  try {
    read = spdl::read_file(path_of(fd), scratch, std::nullopt, most);
  } catch (const spdl::Error&) {
    expect(content.empty() || content.size() > most);
    return;
  }
  expect(!content.empty() && content.size() <= most && read->size() == content.size());
  expect(std::memcmp(read->data(), content.data(), content.size()) == 0);
  spdl::fuzz_touch({read->data(), read->size() + 1});  // the byte behind may be read
  if (content.size() % 3 == 0) {
    scratch.release();
  }
}

}  // namespace

void fuzz(std::span<const std::uint8_t> data) {
  if (data.size() < 2) {
    return;
  }
  const std::size_t limit = 1 + data[0] + std::size_t{data[1]} * 64;
  const auto content = data.subspan(2);
  const int file = ::memfd_create("fuzz", MFD_CLOEXEC);
  expect(file >= 0);
  write_all(file, content);
  // The edges, whatever the data says, and a limit of its own.
  for (const std::size_t most : {limit, content.size(), content.size() + 1, content.size() < 2 ? 1 : content.size() - 1}) {
    read_and_compare(file, content, most);
  }
  ::close(file);
  int ends[2];
  expect(::pipe(ends) == 0);
  write_all(ends[1], content.first(content.size() < 60000 ? content.size() : 60000));  // as much as a pipe holds
  const int reader = ::open(path_of(ends[0]).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ::close(ends[1]);
  read_and_compare(reader, content.first(content.size() < 60000 ? content.size() : 60000), limit);
  ::close(reader);
  ::close(ends[0]);
}
