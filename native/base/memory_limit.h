// The largest amount of memory that this process can have.

#pragma once

#include <cstddef>
#include <string>

namespace spdl {

// The least of what the machine has, what the control groups of this process may have (container runtimes and resource
// managers set memory.max and memory.high of version 2, memory.limit_in_bytes of version 1), and what RLIMIT_AS leaves.
// Not 0; the largest number if nothing is known. Reads a few small files below `root`: the groups' are looked for where
// all systems mount them.
std::size_t memory_limit(const std::string& root = "/") noexcept;

}  // namespace spdl
