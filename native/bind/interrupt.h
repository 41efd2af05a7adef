// Ctrl-C while native code blocks.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "base/watch.h"

namespace spdl::bind {

// While it lives, a signal whose handler raises ends blocking calls of this thread, if this is the thread that handles
// signals. Native code then throws Cancelled, which Python sees as the handler's exception. Create it with the GIL
// held, before releasing it, as a local variable.
class Interruptible {
 public:
  Interruptible();

 private:
  std::optional<CancellationScope> scope_;
};

// Checks for signals between the items of a long call. Call it without the GIL, but `throw_if_raised` with it.
class SignalCheck {
 public:
  // Whether a handler has raised.
  bool operator()();
  // Throws the handler's exception.
  void throw_if_raised();

 private:
  std::optional<nanobind::python_error> raised_;
};

// For code that calls Python during native work: keeps a handler's exception, which `raise_interrupt` raises later. The
// GIL is held.
void keep_interrupt(nanobind::python_error raised);

// Sets Python's error to the handler's exception, for the exception translator. The GIL is held.
void raise_interrupt();

}  // namespace spdl::bind
