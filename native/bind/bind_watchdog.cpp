#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "bind/registration.h"
#include "shared/watchdog.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kWatchdogDoc = R"(Reports a standstill that Python cannot report because native code holds the GIL.

A native thread, which ends with this object, writes the stacks of Python's threads. Thread-safe.

Args:
    fd: Descriptor to write to. It is duplicated.

Raises:
    OSError: The system is out of threads or of file descriptors.)";

}  // namespace

void register_watchdog(nb::module_& module) {
  nb::class_<Watchdog>(module, "Watchdog", kWatchdogDoc)
      .def(nb::init<int>(), "fd"_a)
      .def("lived", &Watchdog::lived,
           R"(Return the seconds that this process has run since the start, not counting time while it was stopped.)")
      .def(
          "arm", [](Watchdog& self, double seconds, std::string text) { self.arm(seconds, std::move(text)); },
          "seconds"_a, "text"_a, nb::call_guard<nb::gil_scoped_release>(),
          R"(Report ``text`` and the stacks after a wait of ``seconds`` from now on, unless called again before.)")
      .def("disarm", &Watchdog::disarm, nb::call_guard<nb::gil_scoped_release>(), R"(Cancel the report.)")
      .def("close", &Watchdog::close, nb::call_guard<nb::gil_scoped_release>(),
           R"(End the thread. Does not wait for it. Idempotent.)")
      .def("set_waiting", &Watchdog::set_waiting, "is_waiting"_a,
           R"(Set whether anybody is waiting, from now on.)")
      .def("take_report", &Watchdog::take_report, R"(Return whether a report was written since the last call.)");
}

}  // namespace spdl::bind
