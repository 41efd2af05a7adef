// What users name as a source, as native code takes it. The GIL is held in all of it.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

#include "bind/memory.h"
#include "image/batch.h"

namespace spdl::bind {

struct HeldSource {
  ImageSource source;
  std::optional<Export> held;  // what keeps the source's memory in place
};

// A path as text, or a one-dimensional buffer of bytes, which is held. `what` is the subject of the sentence in the
// TypeError or ValueError for others.
HeldSource hold_source(nanobind::handle source, const char* what);

// The path that a text of ASCII characters is, without a copy; nothing for other text, and for what is no text. ASCII is
// the same in every encoding of file names.
std::optional<std::string_view> plain_path(nanobind::handle source) noexcept;

// What messages call a source: its path, `Bytes: 0x` and its address, or, unless it is None, `name`.
std::string name_of(const ImageSource& source, nanobind::handle name);

}  // namespace spdl::bind
