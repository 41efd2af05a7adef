// FFmpeg's filter graphs: descriptions in text, frames in, frames out.
//
// Any number of named inputs and outputs; ChainFilter is the form with one of each. Owns its graph, which runs in the
// caller's thread. One thread per object.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "media/frames.h"

namespace spdl {

class FilterGraph {
 public:
  // Throws Error(kFilter) with FFmpeg's own message.
  explicit FilterGraph(const std::string& description);
  ~FilterGraph();
  FilterGraph(FilterGraph&&) noexcept;

  // `key`: name of the node, such as `buffer@in0`; needed where there are several. Throws Error: kUnknownNode, kFilter.
  void add_frames(Frames frames, const std::optional<std::string>& key);
  std::optional<Frames> get_frames(const std::optional<std::string>& key);
  void flush();
  std::string dump() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spdl
