
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "bind/gil.h"
#include "bind/registration.h"
#include "observe/sampler.h"
#include "observe/thread_state.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kSamplerDoc = R"(Counts what the threads of a pipeline are doing. The sampler's own thread needs no GIL.

Thread-safe. In a forked child it does nothing.

Args:
    num_stages: The number of stages.
    period: Mean time between two observations of all threads, in seconds.
    has_gil: Whether this interpreter has a GIL.
    most_share: Share of a CPU that the observations may take. They wait until it covers what they cost.

Raises:
    OSError: This system does not show what its threads do, or no thread could be started.)";

constexpr const char* kReadDoc = R"(Return the counts so far.

Returns:
    The number of observations of all threads; of them, how many found the GIL held, and how many found it held by a
    thread that works for no stage; CPU seconds of the threads that call ``enter``; and for each stage the number of
    observations of a thread, and how many of them found it running, waiting for the GIL, waiting for another lock, in
    another system call, and holding the GIL; the CPU seconds of its assigned threads; and the number and the CPU
    seconds of measured
    calls that ran alone, and of those that ran beside others of the stage.)";

// ------------------------------------------------------------------------------------------------ learning the GIL
//
// The code assumes nothing about CPython's private structures except that they are near each other. It makes a thread
// wait for the GIL, which shows the word that the thread sleeps on. Some word before that one changes with the thread
// that holds the GIL, and some word in each thread's state is the thread's number. The code searches for both in two
// threads, and uses them only if it finds exactly one of each.

constexpr std::size_t kWordsBefore = 32;
constexpr std::size_t kWordsOfThread = 64;
constexpr auto kPatience = std::chrono::milliseconds(200);

using Offsets = std::vector<std::uintptr_t>;

std::uintptr_t this_state() noexcept { return reinterpret_cast<std::uintptr_t>(PyThreadState_Get()); }

// The words below `from` that have `value`, and are followed by a number that is 1.
Offsets places_of_holder(std::uintptr_t from, std::uintptr_t value) {
  Offsets found;
  for (std::size_t k = 1; k <= kWordsBefore; ++k) {
    const std::uintptr_t at = (from & ~std::uintptr_t{7}) - 8 * k;
    const auto word = read_word(at);
    const auto next = read_word(at + 8);
    if (word == value && next && static_cast<std::uint32_t>(*next) == 1) {
      found.push_back(at);
    }
  }
  return found;
}

// The offsets at which a thread's state has the thread's number.
Offsets offsets_of_tid(std::uintptr_t state, pid_t tid) {
  Offsets found;
  for (std::size_t k = 0; k < kWordsOfThread; ++k) {
    if (read_word(state + 8 * k) == static_cast<std::uintptr_t>(tid)) {
      found.push_back(8 * k);
    }
  }
  return found;
}

Offsets in_both(const Offsets& a, const Offsets& b) {
  Offsets both;
  for (const std::uintptr_t each : a) {
    if (std::find(b.begin(), b.end(), each) != b.end()) {
      both.push_back(each);
    }
  }
  return both;
}

// Shared with the thread that waits for the GIL. That thread is not joined: when the interpreter ends, it may never get
// the GIL.
struct Waiter {
  std::atomic<pid_t> tid = 0;
  std::atomic<std::uintptr_t> word = 0;
  std::mutex mutex;
  std::condition_variable has_ended;
  bool is_over = false;
  Offsets holders;
  Offsets tids;

  void run() {
    tid = this_thread();
    const PyGILState_STATE state = PyGILState_Ensure();
    const Offsets found = word != 0 ? places_of_holder(word, this_state()) : Offsets{};
    const Offsets offsets = offsets_of_tid(this_state(), tid);
    PyGILState_Release(state);
    const std::lock_guard held(mutex);
    holders = found;
    tids = offsets;
    is_over = true;
    has_ended.notify_all();
  }

  // The word that the thread sleeps on. The caller holds the GIL for the whole call.
  std::uintptr_t wait_for_word() const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::uintptr_t before = 0;
    while (std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      bool is_running = false;
      const auto sleep = tid != 0 ? WatchedThread(tid).sleep(is_running) : std::nullopt;
      const std::uintptr_t found = sleep && sleep->is_futex ? sleep->word : 0;
      // A condition variable alternates between two words, 4 bytes apart.
      if (found != 0 && before != 0 && (found > before ? found - before : before - found) <= 8) {
        return std::min(found, before);
      }
      before = found;
    }
    return 0;
  }
};

GilPlace learn_gil() {
  if constexpr (sizeof(void*) != 8) {
    return {};
  }
  const auto waiter = std::make_shared<Waiter>();
  start_thread([waiter] { waiter->run(); }).detach();
  const std::uintptr_t word = waiter->wait_for_word();
  if (word == 0) {
    return {};
  }
  const Offsets holders = places_of_holder(word, this_state());
  const Offsets tids = offsets_of_tid(this_state(), this_thread());
  waiter->word = word;
  GilPlace place{.futex = word};
  {
    const GilReleased released;
    std::unique_lock held(waiter->mutex);
    if (!waiter->has_ended.wait_for(held, 5 * kPatience, [&] { return waiter->is_over; })) {
      return place;
    }
  }
  const Offsets holder = in_both(holders, waiter->holders);
  const Offsets offset = in_both(tids, waiter->tids);
  if (holder.size() == 1 && offset.size() == 1) {
    place.holder = holder[0];
    place.tid_offset = offset[0];
  }
  return place;
}

// The GIL does not move, so its place is learned once. The GIL is held.
const GilPlace& known_gil() {
  // The style guide forbids mutable globals; this one holds a fact about the process.
  static std::optional<GilPlace> place;
  static std::mutex learning;
  if (!place) {
    const std::unique_lock held(learning, std::try_to_lock);
    if (!held) {
      static const GilPlace unknown;
      return unknown;  // another thread is learning it at the moment
    }
    const GilPlace learned = learn_gil();
    if (learned.futex == 0) {
      static const GilPlace unknown;
      return unknown;
    }
    place = learned;
  }
  return *place;
}

nb::tuple read(const Samples& samples) {
  nb::list stages;
  for (const StageSamples& each : samples.stages) {
    stages.append(nb::make_tuple(each.num, each.running, each.gil, each.lock, each.io, each.held, each.cpu,
                                 each.num_alone, each.cpu_alone, each.num_beside, each.cpu_beside));
  }
  return nb::make_tuple(samples.num_ticks, samples.gil_held, samples.gil_elsewhere, samples.cpu, stages);
}

struct Owner {
  Owner(std::size_t size, double period, bool has_gil, double most_share)
      : num_stages(size), gil(has_gil ? known_gil() : GilPlace{}), sampler(size, period, most_share, gil) {}

  std::size_t checked(std::size_t stage) const {
    if (stage >= num_stages) {
      throw nb::value_error("there is no such stage");
    }
    return stage;
  }

  // Keeps the thread object alive: the sampler reads its words.
  void watch(int native_id, nb::object thread, std::size_t call, std::size_t owner) {
    const auto words = reinterpret_cast<std::uintptr_t>(thread.ptr());
    {
      const std::lock_guard held(mutex);
      threads.push_back(std::move(thread));
    }
    sampler.watch(native_id, reinterpret_cast<const std::uintptr_t*>(words + call),
                  reinterpret_cast<const std::uintptr_t*>(words + owner),
                  reinterpret_cast<std::uintptr_t>(nb::none().ptr()));
  }

  const std::size_t num_stages;
  const GilPlace gil;
  std::mutex mutex;
  std::vector<nb::object> threads;  // outlives the sampler below
  Sampler sampler;
};

// Where an object keeps an attribute: the offset of the only word of it that refers to the value; 0 if there is none, or
// more than one. `size`: of the object, in bytes.
std::size_t offset_of(nb::handle object, nb::handle value, std::size_t size) {
  const auto* const words = reinterpret_cast<const std::uintptr_t*>(object.ptr());
  const auto wanted = reinterpret_cast<std::uintptr_t>(value.ptr());
  std::size_t found = 0;
  for (std::size_t k = 1; k < size / sizeof(std::uintptr_t); ++k) {
    if (words[k] == wanted) {
      if (found != 0) {
        return 0;
      }
      found = k * sizeof(std::uintptr_t);
    }
  }
  return found;
}

}  // namespace

void register_sampler(nb::module_& module) {
  module.def("offset_of", &offset_of, "object"_a, "value"_a, "size"_a,
             "Return the offset, in bytes, of the word of an object of ``size`` bytes that refers to ``value``; 0 if no word "
             "does, or several do.");
  nb::class_<Owner>(module, "Sampler", kSamplerDoc)
      .def(nb::init<std::size_t, double, bool, double>(), "num_stages"_a, "period"_a, "has_gil"_a, "most_share"_a = 1.0)
      .def_prop_ro(
          "knows_gil", [](const Owner& self) { return self.gil.futex != 0; },
          "Whether waits for the GIL can be told from waits for other locks.")
      .def_prop_ro(
          "knows_holder", [](const Owner& self) { return self.gil.holder != 0; },
          "Whether the thread that holds the GIL is known.")
      .def(
          "enter", [](Owner& self, std::size_t stage) { self.sampler.enter(self.checked(stage)); }, "stage"_a,
          "Record that the calling thread begins a call of a stage.")
      .def(
          "leave", [](Owner& self) { self.sampler.leave(); }, "Record that the calling thread ends its call.")
      .def(
          "assign", [](Owner& self, int native_id, std::size_t stage) { self.sampler.assign(native_id, self.checked(stage)); },
          "native_id"_a, "stage"_a, "Count everything that a thread does for this stage.")
      .def("watch", &Owner::watch, "native_id"_a, "thread"_a, "call"_a, "owner"_a,
           "Count what a thread does for the stage of the object that it keeps at the offset ``owner`` of ``thread``, while "
           "the word at the offset ``call`` is not ``None``. Costs the thread nothing.")
      .def(
          "name",
          [](Owner& self, nb::handle owner, std::size_t stage) {
            self.sampler.name(reinterpret_cast<std::uintptr_t>(owner.ptr()), self.checked(stage));
          },
          "owner"_a, "stage"_a, "Say which stage an object stands for. It is compared by identity, and not kept alive.")
      .def(
          "adopt", [](Owner& self, int native_id, std::size_t stage) { self.sampler.adopt(native_id, self.checked(stage)); },
          "native_id"_a, "stage"_a,
          "Record that a thread is in a call that began earlier. Its observations count until ``forget``.")
      .def(
          "forget", [](Owner& self, int native_id) { self.sampler.forget(native_id); }, "native_id"_a,
          "Record that the call of an adopted thread has ended at an unknown time.")
      .def("read", [](const Owner& self) { return read(self.sampler.read()); },
           nb::sig("def read(self) -> tuple[int, int, int, float, list[tuple[int, int, int, int, int, int, float, int, "
                   "float, int, float]]]"),
           kReadDoc)
      .def(
          "close", [](Owner& self) { self.sampler.close(); },
          "End the thread. What was counted can still be read. Idempotent.");
}

}  // namespace spdl::bind
