// What another thread of this process is doing at this moment, as Linux tells it in /proc/self/task.
//
// A thread that runs, or would if it had a CPU, is "running". One that sleeps is in a system call, which
// /proc/self/task/T/syscall names with its arguments: a futex whose word is one of the GIL's waits for the GIL, any other
// futex is a lock, and everything else is I/O, a sleep or a wait for another process. See proc(5).
//
// The file is opened once for each thread and read again and again: a read takes 1.5 us, and opening it would take 5 more.
// Nothing needs the GIL or stops the thread.

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

// Number of the calling thread, as the kernel counts threads; -1 where there is none.
pid_t this_thread() noexcept;

// A thread of this process that is looked at. Not thread-safe. Keeps one file open, from the first look on.
class WatchedThread {
 public:
  explicit WatchedThread(pid_t tid) noexcept : tid_(tid) {}
  ~WatchedThread() { close(); }
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  pid_t tid() const noexcept { return tid_; }

  // What it sleeps in. Nothing, with `is_running` true, if it runs; nothing, with false, if it cannot be told: the
  // thread has ended, no more files can be opened, or this system has no such files.
  std::optional<Sleep> sleep(bool& is_running) noexcept;

  // Its state. `gil_word`: the futex word that a thread was seen on while it waited for the GIL; 0: not known.
  std::optional<ThreadState> state(std::uintptr_t gil_word) noexcept;

  // Closes the file. The next look opens it again.
  void close() noexcept;

  // Whether a look has found that it had ended.
  bool has_ended() const noexcept { return has_ended_; }

 private:
  const pid_t tid_;
  int file_ = -1;
  bool has_ended_ = false;
};

// CPU time of a thread of this process, in seconds; nothing if it has ended.
std::optional<double> cpu_time_of(pid_t tid) noexcept;

// CPU time of the calling thread, in seconds.
double this_cpu_time() noexcept;

// Copies a word of this process; nothing if the address is not mapped. The memory may be freed at any moment.
std::optional<std::uintptr_t> read_word(std::uintptr_t address) noexcept;

}  // namespace spdl
