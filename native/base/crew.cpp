#include "base/crew.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "base/watch.h"

namespace spdl {
namespace {

using Clock = std::chrono::steady_clock;

// How many items are announced before their turn. With small files, 32 requests keep a disk busy.
constexpr std::size_t kAhead = 32;

struct Outcome {
  std::optional<Error> error;
  bool is_settled = false;
};

// Shared by the threads of a call: which item is next, whether to skip the rest, and how many helpers are working.
struct Progress {
  std::vector<Outcome> outcomes;  // each is of the thread that took the item
  std::vector<std::size_t> order;  // of the items; empty: as they are numbered
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> next_to_announce = 0;
  std::atomic<bool> is_over = false;
  std::mutex lock;
  std::condition_variable helper_ended;
  int num_helpers = 0;     // under the lock
  std::exception_ptr bug;  // under the lock: a broken invariant, which is no failure of an item
};

Error out_of_memory() { return Error(ErrorKind::kDecode, "decode", "out of memory"); }

// Until the helpers have ended. One may wait for a pipe, and Ctrl-C is for the caller's thread alone.
void wait_for_helpers(Progress& progress, const std::function<bool()>& is_cancelled) {
  std::unique_lock held(progress.lock);
  while (!progress.helper_ended.wait_for(held, kPatience, [&] { return progress.num_helpers == 0; })) {
    held.unlock();
    if (!progress.is_over && is_cancelled()) {
      progress.is_over = true;
    }
    held.lock();
  }
}

// How often the calling thread has given up its CPU to wait for something, as for a disk or a server.
long num_waits() noexcept {
#ifdef RUSAGE_THREAD
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
#else
  return 0;
#endif
}

// The items by descending size; or empty if getting sizes blocks, as on a remote or cold file system: the threads
// better wait in parallel.
std::vector<std::size_t> largest_first(std::size_t count, const std::function<std::uint64_t(std::size_t)>& size_of) {
  constexpr long kMostWaits = 2;
  const long before = num_waits();
  std::vector<std::uint64_t> sizes(count);
  for (std::size_t i = 0; i < count; ++i) {
    sizes[i] = size_of(i);
    if (i % 4 == 3 && num_waits() - before > kMostWaits) {
      return {};
    }
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return sizes[i]; });
  return order;
}

std::size_t item_at(const Progress& progress, std::size_t turn) {
  return progress.order.empty() ? turn : progress.order[turn];
}

void announce_after(Progress& progress, std::size_t turn, const std::function<void(std::size_t)>& announce) {
  const std::size_t end = std::min(turn + 1 + kAhead, progress.outcomes.size());
  std::size_t at = progress.next_to_announce;
  while (!progress.is_over) {
    const std::size_t chosen = std::max({at, turn + 1, progress.next.load()});
    if (chosen >= end) {
      return;
    }
    if (progress.next_to_announce.compare_exchange_weak(at, chosen + 1)) {
      announce(item_at(progress, chosen));
      at = chosen + 1;
    }
  }
}

template <class AfterEach>
void take_items(Progress& progress, const std::function<bool(std::size_t)>& work,
                const Crew& crew, AfterEach after_each) {
  std::uint64_t input = crew.announce ? crew.input_of_thread() : 0;
  while (!progress.is_over) {
    const std::size_t turn = progress.next++;
    if (turn >= progress.outcomes.size()) {
      return;
    }
    const std::size_t i = item_at(progress, turn);
    Outcome& outcome = progress.outcomes[i];
    try {
      if (!work(i)) {
        progress.is_over = true;
      }
    } catch (const Error& error) {
      outcome.error = error;
    } catch (const std::bad_alloc&) {
      outcome.error = out_of_memory();
    } catch (const Cancelled&) {
      progress.is_over = true;
    } catch (const std::logic_error&) {
      const std::lock_guard held(progress.lock);
      progress.bug = std::current_exception();
      progress.is_over = true;
    } catch (const std::exception& error) {
      outcome.error = Error(ErrorKind::kDecode, "decode", std::string("a library failed: ") + error.what());
    } catch (...) {
      outcome.error = Error(ErrorKind::kDecode, "decode", "a library failed with an unknown exception");
    }
    outcome.is_settled = true;
    // What announcing reads counts too: it goes on until it meets files that are in memory.
    if (crew.announce) {
      const std::uint64_t before = std::exchange(input, crew.input_of_thread());
      if (input != before) {
        announce_after(progress, turn, crew.announce);
      }
    }
    after_each();
  }
}

}  // namespace

std::optional<std::vector<std::optional<Error>>> work_off(std::size_t count, const Crew& crew,
                                                          const std::function<bool(std::size_t)>& work) {
  Progress progress;
  progress.outcomes.resize(count);
  {
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(crew.num_threads, 1)), count);
    if (wanted > 1 && crew.size_of) {
      progress.order = largest_first(count, crew.size_of);
    }
    std::vector<std::jthread> helpers;
    helpers.reserve(wanted);
    try {
      for (std::size_t i = 1; i < wanted; ++i) {
        const std::lock_guard held(progress.lock);
        helpers.push_back(start_thread([&] {
          try {
            const CancellationScope scope([&] { return progress.is_over.load(); });
            take_items(progress, work, crew, [] {});
          } catch (...) {
            // There was no memory for an error's text. The item has no outcome.
          }
          const std::lock_guard counting(progress.lock);
          --progress.num_helpers;
          progress.helper_ended.notify_one();
        }));
        ++progress.num_helpers;
      }
    } catch (const std::exception&) {
      // The system has no more threads, or no memory for one: those there are do the work.
    }
    const CancellationScope scope([&] { return progress.is_over || crew.is_cancelled(); });
    auto asked = Clock::now();
    take_items(progress, work, crew, [&] {
      if (Clock::now() - asked > kPatience) {
        progress.is_over = progress.is_over || crew.is_cancelled();
        asked = Clock::now();
      }
    });
    if (wanted > 1) {
      wait_for_helpers(progress, crew.is_cancelled);
    }
  }
  if (progress.bug) {
    std::rethrow_exception(progress.bug);
  }
  if (progress.is_over) {
    return std::nullopt;
  }
  std::vector<std::optional<Error>> errors;
  errors.reserve(count);
  for (Outcome& outcome : progress.outcomes) {
    errors.push_back(outcome.is_settled ? std::move(outcome.error) : out_of_memory());
  }
  return errors;
}

}  // namespace spdl
