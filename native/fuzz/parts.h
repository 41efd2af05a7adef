// Packets and frames in parts, as a fuzz target gets them: one joined part and, behind it, others.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "media/byte_stream.h"
#include "media/part.h"

namespace spdl {

// In memory of exactly its size.
inline Part fuzz_part(std::span<const std::uint8_t> data) {
  auto owner = std::make_shared<std::vector<std::uint8_t>>(data.begin(), data.end());
  owner->shrink_to_fit();
  return {*owner, owner};
}

// The data as it is, or with the hash that its description has, so that what is behind that check is reached.
inline std::vector<std::uint8_t> with_hash(std::span<const std::uint8_t> data) {
  std::vector<std::uint8_t> fixed(data.begin(), data.end());
  constexpr std::size_t kHeader = 24;
  if (fixed.size() < kHeader) {
    return fixed;
  }
  std::uint64_t size = 0;
  std::memcpy(&size, fixed.data() + 8, sizeof(size));
  size = std::min<std::uint64_t>(size, fixed.size() - kHeader);
  const std::uint64_t hash = hash_of({fixed.data() + kHeader, static_cast<std::size_t>(size)});
  std::memcpy(fixed.data() + 8, &size, sizeof(size));
  std::memcpy(fixed.data() + 16, &hash, sizeof(hash));
  return fixed;
}

// The last four bytes say where the joined part ends, and the rest is one beside it; none if they lead nowhere.
struct FuzzParts {
  Part joined;
  std::vector<Part> beside;
};

inline FuzzParts split(std::span<const std::uint8_t> data) {
  std::uint32_t at = 0;
  if (data.size() >= sizeof(at)) {
    std::memcpy(&at, data.data() + data.size() - sizeof(at), sizeof(at));
    if (at > 0 && at <= data.size() - sizeof(at)) {
      const auto rest = data.subspan(at, data.size() - sizeof(at) - at);
      FuzzParts parts{fuzz_part(with_hash(data.first(at))), {}};
      if (!rest.empty()) {
        parts.beside.push_back(fuzz_part(rest));
      }
      return parts;
    }
  }
  return {fuzz_part(with_hash(data)), {}};
}

}  // namespace spdl
