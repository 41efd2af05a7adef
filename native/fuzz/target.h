// What a fuzz target defines, and what it leans on.

#pragma once

#include <cstdint>
#include <span>

// Parses the data and aborts if what comes out cannot be. Errors of type spdl::Error are an answer like any other.
void fuzz(std::span<const std::uint8_t> data);

namespace spdl {

// Reads every byte, so that a sanitizer sees one that is not there.
inline void fuzz_touch(std::span<const std::uint8_t> data) {
  std::uint8_t sum = 0;
  for (const std::uint8_t byte : data) {
    sum = static_cast<std::uint8_t>(sum + byte);
  }
  volatile std::uint8_t sink = sum;
  static_cast<void>(sink);
}

}  // namespace spdl
