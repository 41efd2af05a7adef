// Detects forks of this process and the end of its parent.

#pragma once

#include <cstdint>

namespace spdl {

// How often this process's line was forked since the library was loaded. What was made in another generation belongs to
// an ancestor, who still has it: counts in shared memory are for the one who made the object to change.
std::uint32_t fork_generation() noexcept;

// Has `fork` counted, from now on. Once is enough; more do no harm.
void watch_forks() noexcept;

// Starts a thread that ends the process, with exit code 1 and without any cleaning up, `grace_seconds` after the other
// end of `fd` is gone. It needs neither Python nor the GIL, so it also ends a process that native code keeps busy.
// It watches a duplicate of `fd`, for as long as the process lives: the other end does not see this one closed before
// (a `shutdown` it does see, and so does the thread). Signals are left to other threads. Throws std::system_error.
void exit_on_hangup(int fd, double grace_seconds);

}  // namespace spdl
