// The largest amount of memory that this process can have.

#pragma once

#include <cstddef>
#include <string>

namespace spdl {

// The minimum of what the machine has, what the control groups of this process allow (container runtimes and resource
// managers set memory.max and memory.high of version 2, memory.limit_in_bytes of version 1), and what RLIMIT_AS leaves.
// Never 0; the largest number if nothing is known. Reads a few small files below `root`, where all systems mount the
// control groups.
std::size_t memory_limit(const std::string& root = "/") noexcept;

}  // namespace spdl
