#include "shared/writer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "shared/process.h"

namespace spdl {
namespace {

using Clock = std::chrono::steady_clock;

// A write and waking the reader cost 10 to 60 us where measured: once per 100 us that is acceptable, and the reader
// does not notice the delay.
constexpr auto kGather = std::chrono::microseconds(100);
// This much is written without waiting for more: a quarter of a Linux socket's buffer.
constexpr std::size_t kEnough = std::size_t{1} << 16;

#ifdef MSG_NOSIGNAL
constexpr int kFlags = MSG_NOSIGNAL;
#else
constexpr int kFlags = 0;  // macOS: SO_NOSIGPIPE, below
#endif

int duplicate(int fd) {
  const int mine = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (mine < 0) {
    throw std::system_error(errno, std::generic_category(), "duplicate the descriptor to write to");
  }
#ifdef SO_NOSIGPIPE
  const int yes = 1;
  ::setsockopt(mine, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
  return mine;
}

}  // namespace

// Belongs to the writer and to its thread, whichever lives longer.
struct Writer::State {
  State(int descriptor, std::size_t limit)
      : fd(duplicate(descriptor)), max_bytes_pending(limit), generation(fork_generation()) {}
  ~State() { ::close(fd); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const int fd;
  const std::size_t max_bytes_pending;
  const std::uint32_t generation;
  mutable std::mutex mutex;
  std::condition_variable changed;  // for the thread: there is something to write, or it is to end
  std::condition_variable written;  // for `drain` and `put`: a write has ended, or none will follow
  // Guarded by the mutex.
  std::vector<std::byte> pending;
  std::size_t num_in_write = 0;  // bytes that somebody is writing now; only one does at a time
  Clock::time_point last_write{};
  bool is_urgent = false;
  bool is_closed = false;
  int error = 0;

  // Writes as much as the socket takes, waiting for it if `may_wait`. The number of bytes, or -errno.
  // Not under the mutex.
  std::ptrdiff_t write(std::span<const std::byte> data, bool may_wait) const noexcept {
    std::size_t done = 0;
    while (done < data.size()) {
      const ssize_t sent = ::send(fd, data.data() + done, data.size() - done, kFlags | (may_wait ? 0 : MSG_DONTWAIT));
      if (sent >= 0) {
        done += static_cast<std::size_t>(sent);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!may_wait) {
          break;
        }
        pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};  // somebody made the socket non-blocking
        ::poll(&room, 1, -1);
      } else if (errno != EINTR) {
        return -errno;
      }
    }
    return static_cast<std::ptrdiff_t>(done);
  }

  void run() {
    std::vector<std::byte> data;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return is_closed || (!pending.empty() && num_in_write == 0); });
      // More may come: see whether it does, unless somebody waits.
      changed.wait_until(lock, last_write + kGather,
                         [this] { return is_closed || is_urgent || pending.size() >= kEnough; });
      if (is_closed) {
        return;
      }
      if (num_in_write != 0) {
        continue;
      }
      data.clear();
      std::swap(data, pending);
      is_urgent = false;
      num_in_write = data.size();
      lock.unlock();
      const std::ptrdiff_t result = write(data, true);
      lock.lock();
      finish_write(result);
      if (error != 0) {
        return;
      }
    }
  }

  // With the mutex.
  bool is_full() const noexcept { return pending.size() + num_in_write > max_bytes_pending; }

  // With the mutex. All of them or, if there is no memory, none.
  void append(std::span<const std::span<const std::byte>> pieces) {
    std::size_t num_bytes = pending.size();
    for (const auto& piece : pieces) {
      num_bytes += piece.size();
    }
    if (num_bytes > pending.capacity()) {
      pending.reserve(std::max(num_bytes, 2 * pending.capacity()));
    }
    for (const auto& piece : pieces) {
      pending.insert(pending.end(), piece.begin(), piece.end());
    }
  }

  // With the mutex. The rest of a write goes before everything that was put in the meantime.
  void put_back(std::vector<std::byte> data, std::size_t num_written) noexcept {
    try {
      data.erase(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(num_written));
      data.insert(data.end(), pending.begin(), pending.end());
      pending = std::move(data);
      is_urgent = true;
    } catch (const std::bad_alloc&) {
      error = ENOMEM;  // the other side cannot make sense of what follows
      pending.clear();
    }
  }

  void finish_write(std::ptrdiff_t result) {
    num_in_write = 0;
    last_write = Clock::now();
    if (result < 0) {
      error = static_cast<int>(-result);
      pending.clear();
    }
    written.notify_all();
  }
};

Writer::Writer(int fd, std::size_t max_bytes_pending) : state_(std::make_shared<State>(fd, max_bytes_pending)) {
  watch_forks();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for Python's threads
  try {
    start_thread([state = state_] { state->run(); }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Writer::~Writer() {
  close();
  if (state_->generation != fork_generation()) {
    // The mutex and the conditions may be in use by a thread that was left behind: destroying them could wait forever.
    ::close(state_->fd);
    static_cast<void>(new std::shared_ptr<State>(std::move(state_)));
  }
}

int Writer::put(std::span<const std::span<const std::byte>> pieces, bool is_urgent, bool may_wait) {
  State& state = *state_;
  if (state.generation != fork_generation()) {
    return EPIPE;
  }
  std::unique_lock lock(state.mutex);
  if (state.is_full() && !may_wait) {
    return EAGAIN;
  }
  state.written.wait(lock, [&state] { return !state.is_full() || state.error != 0 || state.is_closed; });
  if (state.error != 0 || state.is_closed) {
    return state.error != 0 ? state.error : EPIPE;
  }
  const bool was_empty = state.pending.empty();
  state.append(pieces);
  if (state.pending.empty()) {
    return 0;
  }
  const bool is_prompt = is_urgent || Clock::now() - state.last_write > kGather;
  if (is_prompt && (was_empty || is_urgent) && state.num_in_write == 0 && state.pending.size() <= kEnough) {
    std::vector<std::byte> data;
    std::swap(data, state.pending);
    state.num_in_write = data.size();
    lock.unlock();
    const std::ptrdiff_t result = state.write(data, false);
    lock.lock();
    state.finish_write(result);
    if (result >= 0 && static_cast<std::size_t>(result) < data.size()) {
      state.put_back(std::move(data), static_cast<std::size_t>(result));
    }
    const bool has_more = !state.pending.empty();
    const int error = state.error;
    lock.unlock();
    if (has_more) {
      state.changed.notify_one();
    }
    return error;
  }
  const bool is_waking =
      was_empty || (is_urgent && !state.is_urgent) || (state.pending.size() >= kEnough && state.num_in_write == 0);
  state.is_urgent = state.is_urgent || is_urgent;
  lock.unlock();
  if (is_waking) {
    state.changed.notify_one();
  }
  return 0;
}

bool Writer::drain(std::chrono::duration<double> timeout) {
  State& state = *state_;
  if (state.generation != fork_generation()) {
    return false;
  }
  std::unique_lock lock(state.mutex);
  state.is_urgent = !state.pending.empty();
  state.changed.notify_one();
  const auto longest = std::chrono::duration<double>(std::clamp(timeout.count(), 0.0, 1e6));
  return state.written.wait_for(
             lock, longest,
             [&state] { return state.error != 0 || (state.pending.empty() && state.num_in_write == 0); }) &&
         state.error == 0;
}

void Writer::close() noexcept {
  if (state_->generation != fork_generation()) {
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closed = true;
  }
  state_->changed.notify_all();
  state_->written.notify_all();
}

std::size_t Writer::num_bytes_pending() const {
  if (state_->generation != fork_generation()) {
    return 0;
  }
  const std::lock_guard lock(state_->mutex);
  return state_->pending.size() + state_->num_in_write;
}

}  // namespace spdl
