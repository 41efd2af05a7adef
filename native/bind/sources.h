// Turns what users pass as a source into native form. Hold the GIL in all of these functions.

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
  std::optional<Export> held;  // keeps the source's memory in place
};

// A path as text, or a one-dimensional buffer of bytes, which is held. Raises TypeError or ValueError for anything
// else, with `what` as the subject of the message.
HeldSource hold_source(nanobind::handle source, const char* what);

// The path in an ASCII string, without a copy; none for other strings and other objects. ASCII is the same in every
// file name encoding.
std::optional<std::string_view> plain_path(nanobind::handle source) noexcept;

// The name of a source in messages: `name` unless it is None, else its path, or `Bytes: 0x` and its address.
std::string name_of(const ImageSource& source, nanobind::handle name);

}  // namespace spdl::bind
