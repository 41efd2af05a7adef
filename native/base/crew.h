// The items of one call, shared by threads that live for the call.
//
// The threads take the next item from a counter, the largest first where sizes are known: if a large item came last,
// one thread would work while the others wait. Starting a thread takes about 20 us, and no thread stays behind to
// survive a fork or to delay process exit.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace spdl {

struct Crew {
  int num_threads = 0;  // including the caller's; 0 means 1
  // Whether to leave the remaining items. Called from time to time in the caller's thread.
  std::function<bool()> is_cancelled = [] { return false; };
  // Estimates how long an item takes, such as its size in bytes; or empty, to take the items in their order. Called at
  // most once per item, in the caller's thread, and only if there are several threads. If it blocks, as on a file
  // server, it is not called again, and the items are taken in their order.
  std::function<std::uint64_t(std::size_t)> size_of = {};
  // Announces that an item will be processed soon, for example to start reading its file; or empty. Called by any of
  // the threads, at most once per item, and only while files come from a disk and not from the system's cache.
  std::function<void(std::size_t)> announce = {};
  // How much a thread has read from disks so far: items are announced while this grows.
  std::function<std::uint64_t()> input_of_thread = &disk_input_of_thread;
};

// Calls `work(i)` for each item i below `count`. Returns the error of each item, none for success. Returns nothing and
// stops early if the call was cancelled or `work` returned false, which means that the rest is not needed. Several
// threads call `work`, each in a CancellationScope. An exception from it is the error of its item, except
// std::logic_error, a broken invariant, which is thrown to the caller.
std::optional<std::vector<std::optional<Error>>> work_off(std::size_t count, const Crew& crew,
                                                          const std::function<bool(std::size_t)>& work);

}  // namespace spdl
