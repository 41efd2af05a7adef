// The functions that add classes and functions to the extension modules: one for each bind_*.cpp. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

namespace spdl::bind {

// spdl.io.lib._core.
void register_batch(nanobind::module_& module);
void register_jpeg(nanobind::module_& module);
void register_large_memory(nanobind::module_& module);
void register_memory_budget(nanobind::module_& module);
void register_npy(nanobind::module_& module);
void register_resample(nanobind::module_& module);
void register_tar(nanobind::module_& module);
void register_transform(nanobind::module_& module);
void register_wav(nanobind::module_& module);

// spdl.io.lib._media.
void register_bsf(nanobind::module_& module);
void register_clip(nanobind::module_& module);
void register_convert(nanobind::module_& module);
void register_decoder(nanobind::module_& module);
void register_demuxer(nanobind::module_& module);
void register_encoder(nanobind::module_& module);
void register_filter_graph(nanobind::module_& module);
void register_frames(nanobind::module_& module);
void register_library(nanobind::module_& module);
void register_muxer(nanobind::module_& module);
void register_packets(nanobind::module_& module);
void register_sound(nanobind::module_& module);
void register_still(nanobind::module_& module);
// Makes _media use the large-memory cache and the memory budget of `core`, the module _core.
void share_large_memory_of(nanobind::handle core);
void share_memory_budget_of(nanobind::handle core);

// spdl._processes.lib._memory.
void register_exporter(nanobind::module_& module);
void register_lock(nanobind::module_& module);
void register_sampler(nanobind::module_& module);
void register_shared(nanobind::module_& module);
// After `register_shared`, which turns system errors into OSError.
void register_watchdog(nanobind::module_& module);
void register_frame_ring(nanobind::module_& module);
void register_trace(nanobind::module_& module);
void register_writer(nanobind::module_& module);

}  // namespace spdl::bind
