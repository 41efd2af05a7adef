#include "base/file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace spdl {
namespace {

// A file that is removed at the end.
struct Written {
  std::string path = "/tmp/spdl-test-file-XXXXXX";

  explicit Written(const std::string& content) {
    ::close(::mkstemp(path.data()));
    append(content);
  }
  ~Written() { std::remove(path.c_str()); }

  void append(const std::string& content) const { std::ofstream(path, std::ios::app | std::ios::binary) << content; }
};

std::string read(const std::string& path, Buffer& into, std::size_t most = kMaxEncodedBytes) {
  const auto data = read_file(path, into, std::nullopt, most);
  return {data.begin(), data.end()};
}

std::string read_as_the_library_does(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a file is read whole, into new memory and into memory that held more or less") {
  Buffer memory;
  for (const std::size_t size : {1u, 4095u, 4096u, 70000u, 3u, 300000u}) {
    const std::string content(size, static_cast<char>('a' + size % 26));
    CHECK(read(Written(content).path, memory) == content);
  }
}

TEST_CASE("a file of the largest size is read, one that is larger is not") {
  Buffer memory;
  CHECK(read(Written(std::string(100, 'x')).path, memory, 100) == std::string(100, 'x'));
  CHECK_THROWS_AS(read(Written(std::string(101, 'x')).path, memory, 100), Error);
}

TEST_CASE("files whose declared size says nothing are read to their end") {
  Buffer memory;
  // No size for what is made as it is read, and a page for what is shorter.
  for (const std::string path : {"/proc/self/maps", "/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"}) {
    const std::string expected = read_as_the_library_does(path);
    if (!expected.empty() && path != "/proc/self/maps") {
      CHECK(read(path, memory) == expected);
    } else if (!expected.empty()) {  // it changes with the memory in use, but is always long
      CHECK(read(path, memory).size() > 1000);
    }
  }
}

TEST_CASE("of a file that grows, what is read is a prefix with at least what it had at first") {
  const std::string first(50000, 'a');
  const Written file(first);
  std::string all = first;
  std::atomic<bool> has_begun = false;
  std::jthread writer([&](const std::stop_token& stop) {
    std::ofstream stream(file.path, std::ios::app | std::ios::binary);
    for (int i = 0; i < 2000 && !stop.stop_requested(); ++i) {
      const std::string added(97, static_cast<char>('b' + i % 20));
      all += added;
      stream << added << std::flush;
      has_begun = true;
      has_begun.notify_one();
    }
  });
  has_begun.wait(false);
  std::vector<std::string> seen;
  Buffer memory;
  for (int i = 0; i < 20; ++i) {
    seen.push_back(read(file.path, memory));
  }
  writer.request_stop();
  writer.join();
  for (const std::string& each : seen) {
    CHECK(each.size() >= first.size());
    CHECK(all.starts_with(each));
  }
}

}  // namespace spdl
