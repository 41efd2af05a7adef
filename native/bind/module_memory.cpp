// The extension spdl._processes.lib._memory: memory that two processes share, and what threads are doing. It needs only
// system libraries.

#include <nanobind/nanobind.h>

#include <cstdlib>

#include "bind/registration.h"

NB_MODULE(_memory, module) {
  module.doc() = "Native part of spdl.pipeline: memory that two processes share, and what threads are doing.";
  // Views that live at exit are kept by the user: useful for our tests, noise for users.
  nanobind::set_leak_warnings(std::getenv("SPDL_REPORT_LEAKS") != nullptr);
  spdl::bind::register_exporter(module);
  spdl::bind::register_lock(module);
  spdl::bind::register_shared(module);
  spdl::bind::register_watchdog(module);
  spdl::bind::register_sampler(module);  // after `register_shared`, which turns system errors into OSError
  spdl::bind::register_frame_ring(module);
  spdl::bind::register_writer(module);
  spdl::bind::register_trace(module);
}
