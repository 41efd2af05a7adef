// Releasing the GIL; and deferred deletion of Python objects by threads that do not hold it.
//
// A libav thread may drop the last reference to Python memory at any time, even while a thread that holds the GIL waits
// for it to end, or while the interpreter is being finalized. So it must not wait for the GIL, and puts the reference
// on a list instead. Python's main thread empties the list between two bytecode instructions. Every thread that takes
// the GIL again after native work also empties it, because the main thread may stay in C code for hours.
//
// A thread that takes the GIL again after the interpreter was finalized is parked: see forced_unwind.cpp.

#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>

#include "base/own_call.h"

namespace spdl::bind {

// An object that may be deleted only with the GIL held.
class Deferred {
 public:
  Deferred() = default;
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  virtual ~Deferred() = default;

 private:
  friend void drop_deferred() noexcept;
  friend void drop_soon(std::unique_ptr<Deferred> object) noexcept;

  static inline std::atomic<Deferred*> first_ = nullptr;
  static inline std::atomic<bool> is_announced_ = false;  // Python's main thread will look at the list
  Deferred* next_ = nullptr;

 public:
  static bool is_any() noexcept { return first_.load(std::memory_order_relaxed) != nullptr; }
};

// Deletes all that is on the list. The GIL is held.
inline void drop_deferred() noexcept {
  for (Deferred* each = Deferred::first_.exchange(nullptr, std::memory_order_acquire); each != nullptr;) {
    const std::unique_ptr<Deferred> dropped(each);
    each = each->next_;
  }
}

// Deletes the object, on any thread, with or without the GIL; defers the deletion if Python does not know the thread.
inline void drop_soon(std::unique_ptr<Deferred> object) noexcept {
  if (Py_IsInitialized() == 0) {
    (void)object.release();  // Python is shutting down: leak the object
    return;
  }
  if (PyGILState_GetThisThreadState() != nullptr) {
    const nanobind::gil_scoped_acquire held;
    object.reset();
    return;
  }
  Deferred* const added = object.release();
  added->next_ = Deferred::first_.load(std::memory_order_relaxed);
  while (!Deferred::first_.compare_exchange_weak(added->next_, added, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
  }
  constexpr auto drop_all = [](void*) {
    Deferred::is_announced_ = false;  // first, so that later additions to the list are announced again
    drop_deferred();
    return 0;
  };
  // Python queues at most 32 pending calls. If the queue is full, the next dropped object tries again.
  if (!Deferred::is_announced_.exchange(true) && Py_AddPendingCall(drop_all, nullptr) != 0) {
    Deferred::is_announced_ = false;
  }
}

// Releases the GIL, which the thread holds, as long as this lives.
class GilReleased {
 public:
  GilReleased() noexcept : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    PyEval_RestoreThread(state_);
    if (Deferred::is_any()) {
      drop_deferred();
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
  const OwnCall call_;
};

}  // namespace spdl::bind
