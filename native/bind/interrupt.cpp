#include "bind/interrupt.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#ifdef __linux__
#include <sys/types.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <pthread.h>
#endif

namespace nb = nanobind;

namespace spdl::bind {
namespace {

// The exception that a handler raised in this thread, until it is raised in Python.
thread_local std::unique_ptr<nb::python_error> raised;

// Python runs handlers in the main thread only. Determined without Python, so that other threads never wait for the GIL
// here.
bool handles_signals() noexcept {
#ifdef __linux__
  return ::gettid() == ::getpid();
#elif defined(__APPLE__)
  return pthread_main_np() != 0;
#else
  return true;
#endif
}

bool run_handlers() {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) {
    raised = std::make_unique<nb::python_error>();
  }
  return raised != nullptr;
}

}  // namespace

Interruptible::Interruptible() {
  if (handles_signals()) {
    scope_.emplace(&run_handlers);
  }
}

bool SignalCheck::operator()() {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) {
    raised_.emplace();
  }
  return raised_.has_value();
}

void SignalCheck::throw_if_raised() {
  if (raised_) {
    throw *std::move(raised_);
  }
}

void keep_interrupt(nb::python_error error) { raised = std::make_unique<nb::python_error>(std::move(error)); }

void raise_interrupt() {
  if (const auto error = std::exchange(raised, nullptr)) {
    error->restore();
  } else {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

}  // namespace spdl::bind
