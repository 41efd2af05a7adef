// Turns what users pass as a media source into native form. Hold the GIL in all of these functions.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "bind/memory.h"
#include "media/input.h"

namespace spdl::bind {

struct HeldMedia {
  MediaSource source;
  std::string name;            // in messages
  std::optional<Export> held;  // keeps the source's memory in place
};

// As `hold_source`, and also objects that are read in parts (see `spdl.io._remote`). Messages call the source `name`,
// unless it is None.
HeldMedia hold_media(nanobind::handle source, nanobind::handle name, const char* what);

// The sources of a batch.
struct MediaInputs {
  std::vector<MediaSource> sources;
  std::vector<Export> exports;
  std::vector<std::string> names;
};

MediaInputs collect_media(const nanobind::list& sources);

}  // namespace spdl::bind
