#include "shared/watchdog.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/thread.h"
#include "shared/process.h"

namespace spdl {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kTick{0.1};
// The thread is later than this only if the process or the machine was stopped.
constexpr Seconds kLongestTick{0.5};

void write_all(int fd, const char* text, std::size_t size) noexcept {
  while (size > 0) {
    const ssize_t written = ::write(fd, text, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return;
    }
    text += written;
    size -= static_cast<std::size_t>(written);
  }
}

void write_all(int fd, const std::string& text) noexcept { write_all(fd, text.data(), text.size()); }

// What faulthandler calls. CPython has no public function for it, and 3.13 hides this one. What else there is:
// - faulthandler.dump_traceback_later() writes stacks without the GIL. But a process has one such timer, so ours would
//   silently end that of the program or of pytest; and it counts the time in which the process is stopped (SIGSTOP).
// - A handler of faulthandler.register() writes them too, on a signal that we would have to take and to send. A program
//   may choose one (spdl.debug.on_signal); but it interrupts system calls, so that only a person should send it.
// - _PyRuntime begins with offsets for debuggers that read frames of another process. Their table has another layout in
//   each version, and threads of our process change the frames while we read, with or without a GIL. py-spy does this,
//   from outside, where it cannot crash the program.
using DumpThreads = const char* (*)(int fd, void* interpreter, void* current_thread);
// Up to 3.11, the thread that holds the GIL, for any caller; later, the caller's own thread state, which is null here.
using CurrentThread = void* (*)();

void dump_threads(int fd) noexcept {
  const auto dump = reinterpret_cast<DumpThreads>(::dlsym(RTLD_DEFAULT, "_Py_DumpTracebackThreads"));
  if (dump == nullptr) {
    write_all(fd, "  (this version of Python has no function for its stacks meanwhile; `py-spy dump --native` shows "
                  "them, or `kill -USR1 PID` if the program has called spdl.debug.on_signal(signal.SIGUSR1))\n");
    return;
  }
  const auto current = reinterpret_cast<CurrentThread>(::dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet"));
  void* holder = current == nullptr ? nullptr : current();
  write_all(fd, holder == nullptr ? "Which thread holds the GIL is not known on this version of Python.\n"
                                  : "\"Current thread\" is the one that holds the GIL.\n");
  const char* problem = dump(fd, nullptr, holder);
  if (problem != nullptr) {
    write_all(fd, problem);
    write_all(fd, "\n");
  }
}

}  // namespace

struct Watchdog::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;                                        // guarded by mutex
  double armed_at = 0.0;                                       // guarded by mutex
  double seconds = std::numeric_limits<double>::infinity();    // guarded by mutex
  std::string text;                                            // guarded by mutex
  double lived = 0.0;                                          // until the last tick; guarded by mutex
  Clock::time_point last = Clock::now();                       // the last tick; guarded by mutex
  std::atomic<double> waiting_since{std::numeric_limits<double>::infinity()};
  std::atomic<bool> has_reported{false};
  int fd = -1;
  std::uint32_t generation = fork_generation();

  // Under the mutex.
  double lived_until(Clock::time_point now) const noexcept {
    return lived + std::min<Seconds>(now - last, kLongestTick).count();
  }

  void run() {
    std::unique_lock held(mutex);
    while (!is_over) {
      changed.wait_for(held, kTick);
      const auto now = Clock::now();
      lived = lived_until(now);
      last = now;
      const double since = std::max(armed_at, waiting_since.load());
      if (is_over || lived - since < seconds) {
        continue;
      }
      seconds = std::numeric_limits<double>::infinity();
      has_reported.store(true);
      const std::string said = text;
      held.unlock();  // the caller of `arm` must not wait for a terminal
      write_all(fd, said);
      dump_threads(fd);
      held.lock();
    }
    ::close(fd);
  }
};

Watchdog::Watchdog(int fd) : state_(std::make_shared<State>()) {
  watch_forks();
  state_->generation = fork_generation();
  state_->fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (state_->fd < 0) {
    throw std::system_error(errno, std::generic_category(), "duplicate the descriptor to report to");
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread has the mask of the one that starts it
  try {
    start_thread([state = state_] { state->run(); }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(state_->fd);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() { close(); }

void Watchdog::close() noexcept {
  if (state_->generation != fork_generation()) {
    // The thread exists only in the parent, and the mutex may be held forever.
    if (!is_kept_) {
      is_kept_ = true;
      new std::shared_ptr<State>(state_);  // never freed: a condition that a thread waits for must not be destroyed
    }
    return;
  }
  {
    const std::lock_guard held(state_->mutex);
    state_->is_over = true;
  }
  state_->changed.notify_all();
}

double Watchdog::lived() const noexcept {
  const std::lock_guard held(state_->mutex);
  return state_->lived_until(Clock::now());
}

void Watchdog::arm(double seconds, std::string text) {
  const std::lock_guard held(state_->mutex);
  state_->armed_at = state_->lived_until(Clock::now());
  state_->seconds = seconds;
  state_->text = std::move(text);
}

void Watchdog::disarm() noexcept {
  const std::lock_guard held(state_->mutex);
  state_->seconds = std::numeric_limits<double>::infinity();
}

void Watchdog::set_waiting(bool is_waiting) noexcept {
  state_->waiting_since.store(is_waiting ? lived() : std::numeric_limits<double>::infinity());
}

bool Watchdog::take_report() noexcept { return state_->has_reported.exchange(false); }

}  // namespace spdl
