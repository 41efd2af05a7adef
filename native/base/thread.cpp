#include "base/thread.h"

#include <pthread.h>

namespace spdl {
namespace {

// Rules of style forbid mutable globals; this one stands for a fact about the process, that it forks.
constinit std::mutex lock;

// When this is loaded: the first thread may start during the first fork. Without memory for it all is as it was.
[[maybe_unused]] const int refused =
    pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, [] { lock.unlock(); });

}  // namespace

std::mutex& fork_lock() noexcept { return lock; }

}  // namespace spdl
