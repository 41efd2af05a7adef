// FFmpeg's filter graphs: descriptions in text, frames in, frames out.
//
// FilterGraph is the general form with named inputs and outputs; ChainFilter the one that decoding uses: one input made
// from the first frame, one output. One thread per object.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "media/frames.h"

namespace spdl {

// Where a chain's frames come from: what `buffer` and `abuffer` have to be told.
struct ChainInput {
  MediaType type = MediaType::kVideo;
  AVRational time_base{0, 1};
  AVRational frame_rate{0, 1};
};

class ChainFilter {
 public:
  // The graph itself is made when the first frame tells its format, and made anew if a later one differs in it.
  ChainFilter(ChainInput input, std::string description, std::string source);
  ~ChainFilter();
  ChainFilter(ChainFilter&&) noexcept;

  // Gives a frame (null: the end) and appends what comes out. Throws Error(kFilter) with FFmpeg's own message.
  void filter(av::FramePtr frame, std::vector<av::FramePtr>& out);
  // Of what comes out; known after the first frame.
  AVRational time_base() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

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
