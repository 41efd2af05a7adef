// FFmpeg's filter graphs: descriptions in text, frames in, frames out.
//
// Any number of named inputs and outputs; ChainFilter is the form with one of each. Owns its graph, which runs in the
// caller's thread. One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "media/frames.h"

namespace spdl {

class FilterGraph {
 public:
  using Key = std::optional<std::string>;  // name of a node, such as `buffer@in0`; none: the only one

  // Throws Error(kFilter) with FFmpeg's own message.
  explicit FilterGraph(std::string description);

  // Throws Error(kUnknownNode) if there is no such input, Error(kFilter) for no key if there are several inputs.
  void expect_input(const Key& key) const { find(inputs_, key, "input"); }

  // Time stamps are converted to the input's time base. Throws as `expect_input`, and Error(kFilter) for frames that
  // are not what the input was declared for, and after `flush`.
  void add_frames(Frames frames, const Key& key);

  // Returns all ready frames, but at most some hundreds plus sixteen for each input frame, because a graph may be
  // endless. None if nothing is ready or the output has ended.
  std::optional<Frames> get_frames(const Key& key);

  // Signals the end of all inputs. A second call has no effect.
  void flush();

  // FFmpeg's drawing of the graph, in text.
  std::string dump() const;

  std::vector<std::string> input_names() const { return names_of(inputs_); }
  std::vector<std::string> output_names() const { return names_of(outputs_); }

 private:
  using Nodes = std::vector<AVFilterContext*>;  // in graph_

  AVFilterContext& find(const Nodes& nodes, const Key& key, const char* role) const;
  static std::vector<std::string> names_of(const Nodes& nodes);
  void expect_fit(const Frames& frames, const AVFilterContext& input) const;
  std::string action(const char* verb) const;

  std::string description_;
  av::FilterGraphPtr graph_;
  Nodes inputs_;
  std::vector<std::int64_t> ends_;  // end time of each input's frames so far, in its time base
  Nodes outputs_;
  std::string source_;  // of the frames given last
  std::int64_t num_given_ = 0;
  bool is_flushed_ = false;
};

}  // namespace spdl
