// Serialized packets and frames as a fuzz target gets them: in-band bytes and at most one out-of-band buffer.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "media/byte_stream.h"
#include "media/shared_bytes.h"

namespace spdl {

// In memory of exactly its size.
inline SharedBytes fuzz_bytes(std::span<const std::uint8_t> data) {
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

// The last four bytes say where the in-band bytes end; the rest is out of band. All is in band if they are no valid offset.
struct FuzzInput {
  SharedBytes in_band;
  std::vector<SharedBytes> out_of_band;
};

inline FuzzInput split(std::span<const std::uint8_t> data) {
  std::uint32_t at = 0;
  if (data.size() >= sizeof(at)) {
    std::memcpy(&at, data.data() + data.size() - sizeof(at), sizeof(at));
    if (at > 0 && at <= data.size() - sizeof(at)) {
      const auto rest = data.subspan(at, data.size() - sizeof(at) - at);
      FuzzInput input{fuzz_bytes(with_hash(data.first(at))), {}};
      if (!rest.empty()) {
        input.out_of_band.push_back(fuzz_bytes(rest));
      }
      return input;
    }
  }
  return {fuzz_bytes(with_hash(data)), {}};
}

}  // namespace spdl
