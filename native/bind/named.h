// Names of sources for messages.

#pragma once

#include <cstdio>
#include <span>
#include <string>

namespace spdl::bind {

// Data in memory: `Bytes: 0x…`.
inline std::string name_of_bytes(const void* data) {
  char name[40];
  std::snprintf(name, sizeof(name), "Bytes: 0x%zx", reinterpret_cast<std::size_t>(data));
  return name;
}

}  // namespace spdl::bind
