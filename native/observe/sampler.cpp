#include "observe/sampler.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/thread.h"
#include "observe/sampling_pace.h"
#include "observe/thread_state.h"
#include "shared/process.h"

namespace spdl {
namespace {

constexpr int kNone = -1;
// CPU time is measured for calls that take longer, and for a fraction of the others, because the clock is a system
// call.
constexpr double kLongCall = 200e-6;
constexpr int kMeasuredEvery = 32;

struct Slot {
  explicit Slot(pid_t thread) : tid(thread), watched(thread) {}

  const pid_t tid;
  std::atomic<int> stage = kNone;
  // Of its own thread.
  int num_unmeasured = 0;  // as many calls are not measured
  bool is_measured = false;
  int num_running = 0;  // calls of the stage when this one began, with this one
  std::uint64_t number = 0;  // of this call, among those of the stage
  double cpu_began = 0;
  // The rest: under the state's mutex.
  bool is_assigned = false;
  std::atomic<bool> is_adopted = false;  // read without the mutex as well
  const std::uintptr_t* call = nullptr;  // the words of a watched thread
  const std::uintptr_t* owner = nullptr;
  std::uintptr_t none = 0;
  WatchedThread watched;
  std::optional<double> last_cpu;
  StageSamples adopted;  // what was seen since it was adopted
};

// What calls cost, for one stage. A lost update changes nothing that matters.
struct Costs {
  std::atomic<int> num_running = 0;
  std::atomic<std::uint64_t> num_begun = 0;
  std::atomic<std::uint64_t> num_alone = 0;
  std::atomic<std::uint64_t> ns_alone = 0;
  std::atomic<std::uint64_t> num_beside = 0;
  std::atomic<std::uint64_t> ns_beside = 0;
};

// The slot of this thread, in the sampler that it used last.
struct Own {
  std::uint64_t sampler = 0;
  std::shared_ptr<Slot> slot;
};

thread_local Own own;
// Tells a sampler from one that had the same address before.
constinit std::atomic<std::uint64_t> num_samplers{0};

void add(StageSamples& to, ThreadState state) {
  ++to.num;
  switch (state) {
    case ThreadState::kRunning:
      ++to.running;
      break;
    case ThreadState::kGil:
      ++to.gil;
      break;
    case ThreadState::kLock:
      ++to.lock;
      break;
    case ThreadState::kIo:
      ++to.io;
      break;
  }
}

void add(StageSamples& to, const StageSamples& more) {
  to.num += more.num;
  to.running += more.running;
  to.gil += more.gil;
  to.lock += more.lock;
  to.io += more.io;
  to.held += more.held;
  to.cpu += more.cpu;
}

}  // namespace

// Belongs to the sampler and to its thread, whichever lives longer.
struct Sampler::State {
  State(std::size_t num_stages, const GilPlace& place)
      : id(num_samplers.fetch_add(1) + 1), gil(place), generation(fork_generation()), costs(num_stages) {
    samples.stages.resize(num_stages);
  }

  bool is_forked() const noexcept { return generation != fork_generation(); }

  // Under the mutex.
  std::shared_ptr<Slot> slot_of(pid_t tid) {
    for (const auto& slot : slots) {
      if (slot->tid == tid) {
        return slot;
      }
    }
    return slots.emplace_back(std::make_shared<Slot>(tid));
  }

  // The thread that holds the GIL; 0: none does, -1: not known.
  pid_t holder() const noexcept {
    if (gil.holder == 0) {
      return -1;
    }
    const auto* const words = reinterpret_cast<const volatile std::uintptr_t*>(gil.holder);
    const std::uintptr_t thread_state = words[0];
    if (*reinterpret_cast<const volatile int*>(words + 1) == 0 || thread_state == 0) {
      return 0;
    }
    // The thread may have ended and its state may have been freed, so the kernel reads it.
    const auto tid = read_word(thread_state + gil.tid_offset);
    return tid ? static_cast<pid_t>(*tid) : 0;
  }

  void look() {
    const pid_t holder_tid = holder();
    const std::lock_guard held(mutex);
    ++samples.num_ticks;
    bool is_held_by_stage = false;
    std::erase_if(slots, [&](const std::shared_ptr<Slot>& slot) { return !look_at(*slot, holder_tid, is_held_by_stage); });
    if (holder_tid > 0) {
      ++samples.gil_held;
      if (!is_held_by_stage) {
        ++samples.gil_elsewhere;
      }
    }
  }

  int stage_of(const Slot& slot) const {
    if (slot.call == nullptr) {
      return slot.stage.load(std::memory_order_relaxed);
    }
    const std::uintptr_t call = __atomic_load_n(slot.call, __ATOMIC_RELAXED);
    if (call == slot.none || call == 0) {
      return kNone;
    }
    const auto found = names.find(__atomic_load_n(slot.owner, __ATOMIC_RELAXED));
    return found == names.end() ? kNone : found->second;
  }

  // False: the thread has ended.
  bool look_at(Slot& slot, pid_t holder_tid, bool& is_held_by_stage) {
    const int stage = stage_of(slot);
    const auto cpu = cpu_time_of(slot.tid);
    if (!cpu) {
      return false;
    }
    StageSamples ignored;
    StageSamples& to = stage == kNone    ? ignored
                       : slot.is_adopted ? slot.adopted
                                         : samples.stages[static_cast<std::size_t>(stage)];
    const double spent = *cpu - slot.last_cpu.value_or(*cpu);
    slot.last_cpu = cpu;
    (slot.is_assigned ? to.cpu : samples.cpu) += spent;
    if (stage == kNone) {
      return true;
    }
    const auto state = slot.watched.state(gil.futex);
    if (!state) {
      return !slot.watched.has_ended();
    }
    add(to, *state);
    if (slot.tid == holder_tid) {
      ++to.held;
      is_held_by_stage = true;
    }
    return true;
  }

  // The number of threads that were never observed.
  std::size_t num_new() const {
    const std::lock_guard held(mutex);
    return static_cast<std::size_t>(std::ranges::count_if(slots, [](const auto& slot) { return !slot->last_cpu; }));
  }

  void run(double shortest, double most_share) {
    std::minstd_rand random(static_cast<unsigned>(id));
    std::uniform_real_distribution<double> factor(0.5, 1.5);
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
    SamplingPace pace(shortest, most_share);
    double pause = pace.wait(0, factor(random), num_new());
    std::unique_lock held(waiting);
    while (!is_over.wait_for(held, std::chrono::duration<double>(pause), [this] { return is_closed; })) {
      // Threads may have come since the pause was chosen.
      pause = pace.earliest(num_new()) - elapsed();
      if (pause <= 0) {
        look();
        pace.looked(this_cpu_time());
        pause = pace.wait(elapsed(), factor(random), num_new());
      }
    }
    const std::lock_guard slots_held(mutex);
    for (const auto& slot : slots) {
      slot->watched.close();  // threads keep their slots
    }
  }

  const std::uint64_t id;
  const GilPlace gil;
  const std::uint32_t generation;

  std::vector<Costs> costs;  // one for each stage

  mutable std::mutex mutex;
  std::vector<std::shared_ptr<Slot>> slots;
  std::unordered_map<std::uintptr_t, int> names;
  Samples samples;

  std::mutex waiting;
  std::condition_variable is_over;
  bool is_closed = false;
  std::jthread thread;
};

Sampler::Sampler(std::size_t num_stages, double period, double most_share, const GilPlace& gil) {
  watch_forks();
  state_ = std::make_shared<State>(num_stages, gil);
  bool is_running = false;
  if (!WatchedThread(this_thread()).sleep(is_running) && !is_running) {
    throw std::system_error(ENOTSUP, std::generic_category(), "read /proc/self/task/*/syscall");
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread has the mask of the one that starts it
  try {
    state_->thread = start_thread([state = state_, period, most_share] { state->run(period, most_share); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Sampler::~Sampler() { close(); }

void Sampler::enter(std::size_t stage) {
  State& state = *state_;
  if (own.sampler != state.id) {
    if (state.is_forked()) {
      return;
    }
    const std::lock_guard held(state.mutex);
    own = {state.id, state.slot_of(this_thread())};
  }
  Slot& slot = *own.slot;
  if (slot.is_adopted) {
    if (state.is_forked()) {
      return;  // the parent's thread may have held the mutex
    }
    const std::lock_guard held(state.mutex);
    slot.is_adopted = false;
    slot.adopted = {};
  }
  slot.stage.store(static_cast<int>(stage), std::memory_order_relaxed);
  Costs& costs = state.costs[stage];
  slot.num_running = costs.num_running.fetch_add(1, std::memory_order_relaxed) + 1;
  slot.number = costs.num_begun.fetch_add(1, std::memory_order_relaxed) + 1;
  slot.is_measured = slot.num_unmeasured-- <= 0;
  if (slot.is_measured) {
    slot.cpu_began = this_cpu_time();
  }
}

void Sampler::leave() noexcept {
  if (own.sampler != state_->id) {
    return;
  }
  Slot& slot = *own.slot;
  const int stage = slot.stage.exchange(kNone, std::memory_order_relaxed);
  if (stage == kNone || slot.num_running == 0) {
    return;
  }
  Costs& costs = state_->costs[static_cast<std::size_t>(stage)];
  const int num_running = costs.num_running.fetch_sub(1, std::memory_order_relaxed);
  if (slot.is_measured) {
    const double cpu = this_cpu_time() - slot.cpu_began;
    slot.num_unmeasured = cpu < kLongCall ? kMeasuredEvery : 0;
    const auto ns = static_cast<std::uint64_t>(cpu * 1e9);
    const bool none_began = costs.num_begun.load(std::memory_order_relaxed) == slot.number;
    if (slot.num_running == 1 && num_running == 1 && none_began) {
      costs.num_alone.fetch_add(1, std::memory_order_relaxed);
      costs.ns_alone.fetch_add(ns, std::memory_order_relaxed);
    } else if (slot.num_running > 1 && num_running > 1) {
      costs.num_beside.fetch_add(1, std::memory_order_relaxed);
      costs.ns_beside.fetch_add(ns, std::memory_order_relaxed);
    }
  }
  slot.num_running = 0;
}

void Sampler::assign(pid_t tid, std::size_t stage) {
  if (state_->is_forked()) {
    return;
  }
  const std::lock_guard held(state_->mutex);
  const auto slot = state_->slot_of(tid);
  slot->is_assigned = true;
  slot->stage = static_cast<int>(stage);
}

void Sampler::watch(pid_t tid, const std::uintptr_t* call, const std::uintptr_t* owner, std::uintptr_t none) {
  if (state_->is_forked()) {
    return;
  }
  const std::lock_guard held(state_->mutex);
  const auto slot = state_->slot_of(tid);
  slot->call = call;
  slot->owner = owner;
  slot->none = none;
}

void Sampler::name(std::uintptr_t owner, std::size_t stage) {
  if (state_->is_forked()) {
    return;
  }
  const std::lock_guard held(state_->mutex);
  state_->names[owner] = static_cast<int>(stage);
}

void Sampler::adopt(pid_t tid, std::size_t stage) {
  if (state_->is_forked()) {
    return;
  }
  const std::lock_guard held(state_->mutex);
  const auto slot = state_->slot_of(tid);
  if (slot->stage == kNone) {
    slot->is_adopted = true;
    slot->stage = static_cast<int>(stage);
  }
}

void Sampler::forget(pid_t tid) {
  if (state_->is_forked()) {
    return;
  }
  const std::lock_guard held(state_->mutex);
  for (const auto& slot : state_->slots) {
    if (slot->tid == tid && slot->is_adopted) {
      slot->is_adopted = false;
      slot->adopted = {};
      slot->stage = kNone;
    }
  }
}

Samples Sampler::read() const {
  if (state_->is_forked()) {
    return {};
  }
  const std::lock_guard held(state_->mutex);
  Samples samples = state_->samples;
  for (const auto& slot : state_->slots) {
    const int stage = slot->stage;
    if (slot->is_adopted && stage != kNone) {
      add(samples.stages[static_cast<std::size_t>(stage)], slot->adopted);
    }
  }
  for (std::size_t stage = 0; stage < samples.stages.size(); ++stage) {
    const Costs& costs = state_->costs[stage];
    StageSamples& to = samples.stages[stage];
    to.num_alone = costs.num_alone;
    to.cpu_alone = static_cast<double>(costs.ns_alone) * 1e-9;
    to.num_beside = costs.num_beside;
    to.cpu_beside = static_cast<double>(costs.ns_beside) * 1e-9;
  }
  return samples;
}

void Sampler::close() noexcept {
  State& state = *state_;
  if (state.is_forked()) {
    // The thread is the parent's, and its locks may be held for good.
    static_cast<void>(new std::shared_ptr<State>(state_));
    return;
  }
  {
    const std::lock_guard held(state.waiting);
    state.is_closed = true;
  }
  state.is_over.notify_all();
  if (state.thread.joinable()) {
    state.thread.join();
  }
}

}  // namespace spdl
