// The extension spdl.io.lib._core: buffers, and the formats that need no FFmpeg.

#include <nanobind/nanobind.h>

#include "bind/bind_jpeg.h"
#include "bind/errors.h"
#include "bind/memory.h"

NB_MODULE(_core, module) {
  module.doc() = "Native part of spdl.io: buffers, and the formats that need no FFmpeg.";
  spdl::bind::register_errors();
  spdl::bind::register_memory(module);
  spdl::bind::register_jpeg(module);
}
