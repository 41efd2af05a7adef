// What another thread of this process is doing at this moment, as Linux reports it in /proc/self/task.
//
// A thread that runs, or waits for a CPU, is "running". A sleeping thread is in a system call, which
// /proc/self/task/T/syscall shows with its arguments: a futex on a word of the GIL is a wait for the GIL, any other
// futex is a lock, and everything else is I/O, a sleep or a wait for another process. See proc(5).
//
// The file is opened once for each thread and then reread: a read takes 1.5 us, and opening would add 5 us. Nothing
// needs the GIL or stops the thread.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace spdl {

enum class ThreadState { kRunning, kGil, kLock, kIo };

// A system call that a thread sleeps in.
struct Sleep {
  bool is_futex;
  std::uintptr_t word;  // of the futex
};

// The kernel's number of the calling thread; -1 where there is none.
pid_t this_thread() noexcept;

// An observed thread of this process. Not thread-safe. Keeps one file open from the first observation on.
class WatchedThread {
 public:
  explicit WatchedThread(pid_t tid) noexcept : tid_(tid) {}
  ~WatchedThread() { close(); }
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  pid_t tid() const noexcept { return tid_; }

  // The system call that it sleeps in. None with `is_running` true if it runs; none with false if unknown: the thread
  // has ended, no more files can be opened, or this system has no such files.
  std::optional<Sleep> sleep(bool& is_running) noexcept;

  // Its state. `gil_word`: the futex word on which a thread slept while it waited for the GIL; 0 if unknown.
  std::optional<ThreadState> state(std::uintptr_t gil_word) noexcept;

  // Closes the file. The next observation opens it again.
  void close() noexcept;

  // Whether an observation has found that the thread had ended.
  bool has_ended() const noexcept { return has_ended_; }

 private:
  const pid_t tid_;
  int file_ = -1;
  bool has_ended_ = false;
};

// CPU time of a thread of this process, in seconds; none if it has ended.
std::optional<double> cpu_time_of(pid_t tid) noexcept;

// CPU time of the calling thread, in seconds.
double this_cpu_time() noexcept;

// Copies a word of this process's memory; none if the address is not mapped. Safe even if the memory is freed at any
// moment.
std::optional<std::uintptr_t> read_word(std::uintptr_t address) noexcept;

}  // namespace spdl
