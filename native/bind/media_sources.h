// What users name as a source of media, as native code takes it. The GIL is held in all of it.

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
  std::optional<Export> held;  // what keeps the source's memory in place
};

// As `hold_source`, and objects that give parts of themselves (see `spdl.io._remote`). They are called `name`, unless it is
// None.
HeldMedia hold_media(nanobind::handle source, nanobind::handle name, const char* what);

// The sources of a batch.
struct MediaInputs {
  std::vector<MediaSource> sources;
  std::vector<Export> exports;
  std::vector<std::string> names;
};

MediaInputs collect_media(const nanobind::list& sources);

}  // namespace spdl::bind
