// The extension spdl.io.lib._media: everything that needs FFmpeg.

#include <nanobind/nanobind.h>

#include <cstdlib>

#include "av/log.h"
#include "base/own_call.h"
#include "bind/errors.h"
#include "bind/shared_bytes.h"
#include "bind/registration.h"

NB_MODULE(_media, module) {
  module.doc() = "Native part of spdl.io: everything that needs FFmpeg.";
  nanobind::set_leak_warnings(std::getenv("SPDL_REPORT_LEAKS") != nullptr);
  // CPUBuffer is registered there, and the cache of large memory is there too.
  spdl::bind::share_large_memory_of(nanobind::module_::import_("spdl.io.lib._core"));
  spdl::bind::share_memory_budget_of(nanobind::module_::import_("spdl.io.lib._core"));
  spdl::OwnCall::on_begin = &spdl::av::listen;
  spdl::bind::register_errors();
  spdl::bind::register_library(module);
  spdl::bind::register_shared_bytes(module);
  spdl::bind::register_packets(module);
  spdl::bind::register_demuxer(module);
  spdl::bind::register_bsf(module);
  spdl::bind::register_frames(module);
  spdl::bind::register_decoder(module);
  spdl::bind::register_filter_graph(module);
  spdl::bind::register_convert(module);
  spdl::bind::register_encoder(module);
  spdl::bind::register_muxer(module);
  spdl::bind::register_clip(module);
  spdl::bind::register_sound(module);
  spdl::bind::register_still(module);
}
