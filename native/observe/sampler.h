// Samples the threads of a pipeline 20 times a second, and counts their states per stage.
//
// A thread reports which stage it works for (`enter`, `leave`), is permanently assigned to one (`assign`), or keeps what
// it works for in two words of memory, which the sampler reads (`watch`): this costs the thread nothing. The
// sampler's own thread reads the rest from the kernel. It needs neither Python nor the GIL, so it also samples while
// the GIL is held, and it does not stop or slow down the threads. The intervals vary at random, so that periodic work
// is not always sampled at the same point.
//
// All methods may be called from any thread. In a forked child, which does not have the sampler's thread, they do
// nothing.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace spdl {

// The addresses at which CPython keeps the state of the GIL that the sampler reads. Unknown values are 0.
struct GilPlace {
  std::uintptr_t futex = 0;       // a word that a thread sleeps on while it waits for the GIL
  std::uintptr_t holder = 0;      // a pointer to the thread state of the newest holder; the word after it says whether
                                  // that thread still holds the GIL
  std::uintptr_t tid_offset = 0;  // of the kernel's thread number in a thread state
};

// What was observed of the calls of one stage. Counts are observations of one thread.
struct StageSamples {
  std::uint64_t num = 0;  // all of them
  std::uint64_t running = 0;  // on a CPU, or waiting for one
  std::uint64_t gil = 0;      // waiting for the GIL
  std::uint64_t lock = 0;     // waiting for another lock
  std::uint64_t io = 0;       // in another system call, or waiting for memory
  std::uint64_t held = 0;     // holding the GIL
  double cpu = 0;             // CPU time of its assigned threads, in seconds
  // Calls that ran alone and calls that ran beside others of the stage: how many were measured, and their CPU time in
  // seconds. Calls that run beside others take longer if they share caches and memory bandwidth.
  std::uint64_t num_alone = 0;
  double cpu_alone = 0;
  std::uint64_t num_beside = 0;
  double cpu_beside = 0;
};

struct Samples {
  std::uint64_t num_ticks = 0;      // how often all threads were observed
  std::uint64_t gil_held = 0;       // ticks at which a thread held the GIL
  std::uint64_t gil_elsewhere = 0;  // of these, ticks at which that thread worked for no stage
  double cpu = 0;                   // CPU time of the threads that enter and leave, in seconds
  std::vector<StageSamples> stages;
};

class Sampler {
 public:
  // Starts sampling. The time between two observations of all threads is `period` on average, or as much longer as they
  // must wait to take no more than `most_share` of a CPU: see sampling_pace.h. Throws std::system_error: this system does
  // not show what its threads do, or no thread could be started.
  Sampler(std::size_t num_stages, double period, double most_share, const GilPlace& gil);
  // Ends the thread, and waits for it.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // The calling thread begins a call of a stage; ends the call.
  void enter(std::size_t stage);
  void leave() noexcept;

  // Counts everything that a thread does for this stage.
  void assign(pid_t tid, std::size_t stage);
  // A thread keeps in `call` the address of its call, or `none` between calls, and in `owner` what the call belongs to,
  // which `name` has given a stage. The words must stay readable until `close`.
  void watch(pid_t tid, const std::uintptr_t* call, const std::uintptr_t* owner, std::uintptr_t none);
  void name(std::uintptr_t owner, std::size_t stage);
  // A thread is in a call that began before the sampler. Its observations count once `read` finds it still in that
  // call; they do not count after `forget`, or when it enters another call.
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
