// Detects forks of this process and the end of its parent.

#pragma once

#include <cstdint>

namespace spdl {

// How many forks lie between the process that loaded the library and this one. An object made in another generation
// belongs to an ancestor, which still has it: only the process that made the object may change its counts in shared
// memory.
std::uint32_t fork_generation() noexcept;

// Counts forks from now on. Calling it again has no effect.
void watch_forks() noexcept;

// Starts a thread that ends the process, with exit code 1 and without cleanup, `grace_seconds` after the other end of
// `fd` is closed. It needs neither Python nor the GIL, so it also ends a process that native code keeps busy. It keeps
// a duplicate of `fd` open as long as the process lives, so the other end does not see this end close earlier (it does
// see a `shutdown`, and so does the thread). The thread handles no signals. Throws std::system_error.
void exit_on_hangup(int fd, double grace_seconds);

}  // namespace spdl
