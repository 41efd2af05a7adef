// Shared by the calls that load a batch: sources, slots, and the outcome as Python objects. The GIL is held.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bind/memory.h"
#include "bind/sources.h"

namespace spdl::bind {

// Sources in native form, and the objects that keep their memory in place.
struct Inputs {
  std::vector<ImageSource> sources;
  std::vector<Export> exports;
};

inline Inputs collect_inputs(const nanobind::list& sources) {
  Inputs inputs;
  inputs.sources.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const nanobind::handle source = sources[i];
    if (const auto path = plain_path(source)) {  // the usual case
      inputs.sources.emplace_back(std::string(*path));
      continue;
    }
    HeldSource held = hold_source(source, ("source " + std::to_string(i)).c_str());
    inputs.sources.push_back(std::move(held.source));
    if (held.held) {
      inputs.exports.push_back(*std::move(held.held));
    }
  }
  return inputs;
}

inline std::size_t bytes_per_item(const CpuBuffer& batch) {
  return batch.shape()[0] == 0 ? 0 : static_cast<std::size_t>(batch.strides()[0]);
}

// Where each item goes. Raises IndexError for a slot that the batch does not have.
inline std::vector<std::uint8_t*> places_of(CpuBuffer& batch, const std::vector<Py_ssize_t>& slots) {
  std::vector<std::uint8_t*> places;
  for (const Py_ssize_t slot : slots) {
    if (slot < 0 || slot >= batch.shape()[0]) {
      throw nanobind::index_error(("the batch has no slot " + std::to_string(slot)).c_str());
    }
    places.push_back(batch.data() + static_cast<std::size_t>(slot) * bytes_per_item(batch));
  }
  return places;
}

}  // namespace spdl::bind
