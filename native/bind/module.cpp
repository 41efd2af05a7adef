// The extension spdl.io.lib._core: buffers, and the formats that need no FFmpeg.

#include <nanobind/nanobind.h>

#include <cstdlib>

#include "bind/bind_transform.h"
#include "bind/errors.h"
#include "bind/memory.h"
#include "bind/reduce_buffer.h"
#include "bind/registration.h"

NB_MODULE(_core, module) {
  module.doc() = "Native part of spdl.io: buffers, and the formats that need no FFmpeg.";
  // Objects that live at exit are mostly kept by other libraries (JAX keeps what it was given): useful for our tests,
  // noise for users.
  nanobind::set_leak_warnings(std::getenv("SPDL_REPORT_LEAKS") != nullptr);
  spdl::bind::register_errors();
  spdl::bind::register_memory(module);
  spdl::bind::register_restore_buffer(module);
  spdl::bind::register_large_memory(module);
  spdl::bind::register_memory_budget(module);
  spdl::bind::register_transform(module);
  spdl::bind::register_batch(module);
  spdl::bind::register_jpeg(module);
  spdl::bind::register_npy(module);
  spdl::bind::register_resample(module);
  spdl::bind::register_tar(module);
  spdl::bind::register_wav(module);
}
