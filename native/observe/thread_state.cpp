#include "observe/thread_state.h"

#include <time.h>

#ifdef __linux__
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#endif

namespace spdl {

double this_cpu_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

#ifdef __linux__

namespace {

// CPython keeps the words of its GIL in one struct: a condition variable, on whose words most waiters sleep, a mutex, and
// a second pair of both, for threads that have given the GIL away and wait until another one has it. This far around a
// word of the first condition variable is the struct, and nothing else that a thread could wait for.
constexpr std::uintptr_t kBefore = 48;
constexpr std::uintptr_t kAfter = 160;

bool is_futex(long number) noexcept {
  switch (number) {
    case SYS_futex:
#ifdef SYS_futex_waitv
    case SYS_futex_waitv:
#endif
#ifdef SYS_futex_time64
    case SYS_futex_time64:
#endif
      return true;
    default:
      return false;
  }
}

}  // namespace

pid_t this_thread() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

void WatchedThread::close() noexcept {
  if (file_ >= 0) {
    ::close(std::exchange(file_, -1));
  }
}

std::optional<Sleep> WatchedThread::sleep(bool& is_running) noexcept {
  is_running = false;
  if (file_ < 0) {
    char path[64];
    std::snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", static_cast<int>(tid_));
    file_ = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file_ < 0) {
      has_ended_ = errno == ENOENT || errno == ESRCH;
      return std::nullopt;
    }
  }
  char text[256];
  const ssize_t size = ::pread(file_, text, sizeof(text) - 1, 0);
  if (size <= 0) {
    has_ended_ = size < 0 && errno == ESRCH;
    return std::nullopt;
  }
  text[size] = '\0';
  if (std::strncmp(text, "running", 7) == 0) {
    is_running = true;
    return std::nullopt;
  }
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);  // -1: it sleeps outside a system call, as for a page of a file
  if (number == SYS_sched_yield) {
    is_running = true;
    return std::nullopt;
  }
  return Sleep{is_futex(number), static_cast<std::uintptr_t>(std::strtoull(end, nullptr, 16))};
}

std::optional<double> cpu_time_of(pid_t tid) noexcept {
  // The clock of a thread by its number, as pthread_getcpuclockid makes it: CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | 6U);
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) {
    return std::nullopt;
  }
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::optional<std::uintptr_t> read_word(std::uintptr_t address) noexcept {
  std::uintptr_t word = 0;
  const iovec to{&word, sizeof(word)};
  const iovec from{reinterpret_cast<void*>(address), sizeof(word)};
  if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(sizeof(word))) {
    return std::nullopt;
  }
  return word;
}

std::optional<ThreadState> WatchedThread::state(std::uintptr_t gil_word) noexcept {
  bool is_running = false;
  const std::optional<Sleep> asleep = sleep(is_running);
  if (!asleep) {
    return is_running ? std::optional(ThreadState::kRunning) : std::nullopt;
  }
  if (!asleep->is_futex) {
    return ThreadState::kIo;
  }
  const bool is_gil = gil_word != 0 && asleep->word + kBefore >= gil_word && asleep->word <= gil_word + kAfter;
  return is_gil ? ThreadState::kGil : ThreadState::kLock;
}

#else

pid_t this_thread() noexcept { return -1; }

void WatchedThread::close() noexcept {}

std::optional<Sleep> WatchedThread::sleep(bool& is_running) noexcept {
  is_running = false;
  return std::nullopt;
}

std::optional<ThreadState> WatchedThread::state(std::uintptr_t) noexcept { return std::nullopt; }

std::optional<double> cpu_time_of(pid_t) noexcept { return std::nullopt; }

std::optional<std::uintptr_t> read_word(std::uintptr_t) noexcept { return std::nullopt; }

#endif

}  // namespace spdl
