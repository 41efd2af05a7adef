// Drives a fuzz target: by libFuzzer where the compiler has it (Clang), else by itself.
//
//   fuzz_NAME [-runs=N] [-seed=N] PATH...
//
// Without libFuzzer it runs every file below the paths, and then N of them that it has damaged at random: the same ones for
// the same seed. The data is in memory of its exact size, so that the address sanitizer sees what is read behind it.

#include <memory>

#include "base/error.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    fuzz({data, size});
  } catch (const spdl::Error&) {
    // It was refused, which is an answer.
  }
  return 0;
}

#ifndef SPDL_LIBFUZZER

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) { return static_cast<std::size_t>(random() % limit); }

void run(const Bytes& data) {
  const auto exact = std::make_unique<std::uint8_t[]>(data.size());
  std::copy(data.begin(), data.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), data.size());
}

// A few of what files suffer: bytes and bits changed, sizes made extreme, pieces cut, doubled and moved.
void damage(Bytes& data, Random& random) {
  for (std::size_t times = 1 + below(random, 4); times > 0 && !data.empty(); --times) {
    const std::size_t at = below(random, data.size());
    const std::size_t length = 1 + below(random, std::min<std::size_t>(data.size() - at, 64));
    const auto place = data.begin() + static_cast<std::ptrdiff_t>(at);
    const auto behind = place + static_cast<std::ptrdiff_t>(length);
    switch (below(random, 7)) {
      case 0:
        data[at] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        data[at] = static_cast<std::uint8_t>(data[at] ^ 1U << below(random, 8));
        break;
      case 2:
        std::fill(place, place + static_cast<std::ptrdiff_t>(std::min<std::size_t>(length, 8)),
                  static_cast<std::uint8_t>(random() % 2 == 0 ? 0xff : 0));
        break;
      case 3:
        data.erase(place, behind);
        break;
      case 4: {
        const Bytes piece(place, behind);
        data.insert(data.begin() + static_cast<std::ptrdiff_t>(below(random, data.size() + 1)), piece.begin(), piece.end());
        break;
      }
      case 5:
        data.resize(at);
        break;
      default:
        data[at] = static_cast<std::uint8_t>("0123456789 '(,)\0\xff"[below(random, 17)]);
        break;
    }
  }
}

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Bytes> collect(const std::filesystem::path& path) {
  std::vector<Bytes> found;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) {
        found.push_back(read(entry.path()));
      }
    }
  } else {
    found.push_back(read(path));
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t num_runs = 100000;
  std::uint64_t seed = 1;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("-runs=")) {
      num_runs = std::strtoull(argv[i] + 6, nullptr, 10);
    } else if (argument.starts_with("-seed=")) {
      seed = std::strtoull(argv[i] + 6, nullptr, 10);
    } else {
      for (Bytes& data : collect(argv[i])) {
        corpus.push_back(std::move(data));
      }
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "usage: %s [-runs=N] [-seed=N] PATH...\n", argv[0]);
    return 2;
  }
  for (const Bytes& data : corpus) {
    run(data);
  }
  Random random(seed);
  for (std::uint64_t i = 0; i < num_runs; ++i) {
    Bytes data = corpus[below(random, corpus.size())];
    damage(data, random);
    run(data);
  }
  std::printf("%zu files and %llu damaged ones: nothing found\n", corpus.size(), static_cast<unsigned long long>(num_runs));
  return 0;
}

#endif
