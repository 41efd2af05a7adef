// The items of one call, shared by threads that live for the call.
//
// The threads take the next item from a counter, the largest first where sizes are known: a large one that comes last
// would be the work of one thread while the others wait. Starting a thread takes about 20 us, and none is left to
// survive a fork or to delay the end of the process.

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
  int num_threads = 0;  // including the caller's; 0 is 1
  // Whether to leave the remaining items. Called from time to time in the caller's thread.
  std::function<bool()> is_cancelled = [] { return false; };
  // What tells which items take longest, such as a size in bytes; or nothing, for the order of the items. Called at
  // most once for each, in the caller's thread, and only if there are several threads. If it has to wait, as for a
  // file server, it is not asked any more, and the items are taken in their order.
  std::function<std::uint64_t(std::size_t)> size_of = {};
  // Says that an item will be worked on soon, such as to have its file read meanwhile; or nothing. Called by any of the
  // threads, at most once for an item, and only while files come from a disk and not from the system's cache.
  std::function<void(std::size_t)> announce = {};
  // How much a thread has had read from disks so far: items are announced while it grows.
  std::function<std::uint64_t()> input_of_thread = &disk_input_of_thread;
};

// Calls `work(i)` for each item i below `count`, and returns the error of each, none for those that went well; or
// nothing, having stopped early, if the call was cancelled or `work` returned false, which says that the rest is of no
// use. `work` is called by several threads, each in a CancellationScope; what it throws concerns its item alone, but
// for std::logic_error, a broken invariant, which is thrown to the caller.
std::optional<std::vector<std::optional<Error>>> work_off(std::size_t count, const Crew& crew,
                                                          const std::function<bool(std::size_t)>& work);

}  // namespace spdl
