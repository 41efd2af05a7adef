// Ctrl-C while native code blocks.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "base/watch.h"

namespace spdl::bind {

// While it lives, a signal whose handler raises ends blocking calls of this thread, if it is the one that handles signals.
// Native code then throws Cancelled, which arrives in Python as what the handler raised. Made with the GIL, before it is
// released; in automatic storage.
class Interruptible {
 public:
  Interruptible();

 private:
  std::optional<CancellationScope> scope_;
};

// Asks for signals between the items of a long call. Asked without the GIL; `throw_if_raised` with it.
class SignalCheck {
 public:
  // Whether a handler has raised.
  bool operator()();
  // Throws what it raised.
  void throw_if_raised();

 private:
  std::optional<nanobind::python_error> raised_;
};

// For code that calls Python in native work: what a handler raised there is raised by `raise_interrupt`. The GIL is held.
void keep_interrupt(nanobind::python_error raised);

// Sets Python's error to what the handler raised, for the translator of exceptions. The GIL is held.
void raise_interrupt();

}  // namespace spdl::bind
