// Looks at the threads of a pipeline 20 times a second, and counts what it finds, for each stage.
//
// A thread says which stage it works for (`enter`, `leave`), or is said to work for one for good (`assign`). The
// sampler's own thread reads the rest from the kernel. It needs neither Python nor the GIL, so that it sees what happens
// while the GIL is held, and no thread is stopped or slowed down by being looked at. The intervals vary at random, so
// that work that repeats itself at the same pace is not always seen at the same point.
//
// All methods may be called from any thread. In a forked child, which does not have the sampler's thread, they do
// nothing.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace spdl {

// Where CPython keeps what the sampler reads of the GIL. What is not known is 0.
struct GilPlace {
  std::uintptr_t futex = 0;       // a word that a thread sleeps on while it waits for the GIL
  std::uintptr_t holder = 0;      // of a pointer to the newest holder's thread state; the word after it says whether it
                                  // holds the GIL
  std::uintptr_t tid_offset = 0;  // of the kernel's thread number in a thread state
};

// What was seen of the calls of one stage, in numbers of observations of a thread.
struct StageSamples {
  std::uint64_t num = 0;  // all of them
  std::uint64_t running = 0;  // on a CPU, or waiting for one
  std::uint64_t gil = 0;      // waiting for the GIL
  std::uint64_t lock = 0;     // waiting for another lock
  std::uint64_t io = 0;       // in another system call, or waiting for memory
  std::uint64_t held = 0;     // holding the GIL
  double cpu = 0;             // CPU time of its assigned threads, in seconds
  // Calls that ran while no other call of the stage did, and those that ran beside others: how many were measured, and
  // their CPU time in seconds. Calls take longer beside others if they share caches and memory bandwidth.
  std::uint64_t num_alone = 0;
  double cpu_alone = 0;
  std::uint64_t num_beside = 0;
  double cpu_beside = 0;
};

struct Samples {
  std::uint64_t num_ticks = 0;      // how often all threads were looked at
  std::uint64_t gil_held = 0;       // ticks at which a thread held the GIL
  std::uint64_t gil_elsewhere = 0;  // of them, those at which it was a thread that works for no stage
  double cpu = 0;                   // CPU time of the threads that enter and leave, in seconds
  std::vector<StageSamples> stages;
};

class Sampler {
 public:
  // Starts. Between two looks at all threads is the period on average, or more if they would take more than this share of
  // a CPU. Throws std::system_error: this system does not show what its threads do, or no thread could be started.
  Sampler(std::size_t num_stages, double period, double most_share, const GilPlace& gil);
  // Ends the thread, and waits for it.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // The calling thread begins a call of a stage; ends it.
  void enter(std::size_t stage);
  void leave() noexcept;

  // Everything that a thread does is for this stage.
  void assign(pid_t tid, std::size_t stage);
  // A thread is in a call that began before the sampler. What is seen of it counts once `read` finds it there still, and
  // not at all after `forget`, or when it enters another call.
  void adopt(pid_t tid, std::size_t stage);
  void forget(pid_t tid);

  Samples read() const;

  // Ends the thread, and waits for it. What was counted can still be read. Idempotent.
  void close() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace spdl
