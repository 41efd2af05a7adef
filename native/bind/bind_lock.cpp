#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "bind/gil.h"
#include "bind/registration.h"
#include "shared/parking_lock.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {

#ifdef __linux__

namespace {

constexpr const char* kParkingDoc = R"(A ``threading.Lock`` whose waiters sleep at once, instead of yielding their core 40 times first.

For Python without the GIL. Who has waited for 100 us is given the lock when it is released; before that, whoever comes
first takes it. A thread that sleeps has neither the GIL nor a place in the way of a garbage collection.)";

constexpr const char* kPostponingDoc = R"(A ``ParkingLock`` that one thread takes and releases.

Threads that it wakes meanwhile, by releasing a ``ParkingLock``, wake up when this lock is free again.)";

// Returns false if it took too long. A negative number of seconds: it waits for ever.
template <typename Lock>
bool acquire_slowly(Lock& lock, double seconds) {
  using Clock = ParkingLock::Clock;
  std::optional<Clock::time_point> deadline;
  if (seconds >= 0) {
    constexpr double kLongest = 1e9;
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(std::min(seconds, kLongest)));
  }
  while (true) {
    ParkingLock::Outcome outcome;
    {
      const GilReleased released;
      outcome = lock.wait(deadline);
    }
    if (outcome != ParkingLock::Outcome::kInterrupted) {
      return outcome == ParkingLock::Outcome::kTaken;
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
}

template <typename Lock>
void acquire_for_ever(Lock& lock) {
  if (!lock.try_lock()) {
    acquire_slowly(lock, -1);
  }
}

template <typename Lock>
void release(Lock& lock) {
  if (!lock.unlock()) {
    throw std::runtime_error("release unlocked lock");
  }
}

template <typename Lock>
void register_as(nb::module_& module, const char* name, const char* doc) {
  nb::class_<Lock>(module, name, doc)
      .def(nb::init<>())
      .def(
          "acquire",
          [](Lock& self, bool blocking, double timeout) {
            return self.try_lock() || (blocking && timeout != 0 && acquire_slowly(self, timeout));
          },
          "blocking"_a = true, "timeout"_a = -1.0,
          R"(Take the lock. Returns False if it is not free, or not within ``timeout`` seconds.)")
      .def("release", &release<Lock>, R"(Release the lock.

Raises:
    RuntimeError: It is not locked.)")
      .def("locked", &Lock::is_locked, R"(Return whether it is locked.)")
      .def("__enter__", &acquire_for_ever<Lock>)
      .def(
          "__exit__", [](Lock& self, nb::handle, nb::handle, nb::handle) { release(self); }, "type"_a.none(),
          "value"_a.none(), "traceback"_a.none());
}

}  // namespace

void register_lock(nb::module_& module) {
  register_as<ParkingLock>(module, "ParkingLock", kParkingDoc);
  register_as<PostponingLock>(module, "PostponingLock", kPostponingDoc);
}

#else

void register_lock(nb::module_&) {}

#endif

}  // namespace spdl::bind
