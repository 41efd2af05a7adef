#include "shared/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/thread.h"

namespace spdl {
namespace {

// Rules of style forbid mutable globals; this one stands for a fact about the process.
constinit std::atomic<std::uint32_t> num_forks{0};

void wait_for_hangup(int fd) noexcept {
  while (true) {
    pollfd watched{.fd = fd, .events = 0, .revents = 0};  // POLLHUP and POLLERR are told unasked
    if (::poll(&watched, 1, -1) > 0 && watched.revents != 0) {
      return;
    }
  }
}

}  // namespace

std::uint32_t fork_generation() noexcept { return num_forks.load(std::memory_order_relaxed); }

void watch_forks() noexcept {
  [[maybe_unused]] static const int refused =
      pthread_atfork(nullptr, nullptr, [] { num_forks.fetch_add(1, std::memory_order_relaxed); });
}

void exit_on_hangup(int fd, double grace_seconds) {
  const int watched = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (watched < 0) {
    throw std::system_error(errno, std::generic_category(), "duplicate the descriptor to watch");
  }
  const std::chrono::duration<double> grace(std::clamp(grace_seconds, 0.0, 3600.0));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread has the mask of the one that starts it
  try {
    start_thread([watched, grace] {
      wait_for_hangup(watched);
      std::this_thread::sleep_for(grace);
      ::_exit(1);
    }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(watched);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace spdl
