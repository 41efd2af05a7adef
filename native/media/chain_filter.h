// The filter of a decoder: one input, made from the first frame, and one output.
//
// Owns its graph, which runs in the caller's thread. One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "base/time_window.h"
#include "media/media_type.h"

namespace spdl {

// Where a chain's frames come from: the parameters of `buffer` and `abuffer` that a frame does not have.
struct ChainInput {
  MediaType type = MediaType::kVideo;
  AVRational time_base{0, 1};
  AVRational frame_rate{0, 1};
  // For samples: the window of the packets. If an `atrim` filter cuts exactly this window, it is exact to the sample;
  // FFmpeg would first round it to microseconds.
  std::optional<TimeWindow> window = {};
};

class ChainFilter {
 public:
  // The graph is created for the format of the first frame, and created again if a later frame has another format.
  ChainFilter(ChainInput input, std::string description, std::string source);

  // Passes in a frame (null: the end) and appends the output. Throws Error(kFilter) with FFmpeg's own message, also for
  // a filter that produces output endlessly without input.
  void filter(av::FramePtr frame, std::vector<av::FramePtr>& out);
  // Of the output time stamps; known after the first frame.
  AVRational time_base() const noexcept { return time_base_; }

 private:
  void make_graph(const AVFrame& first);
  void make_graph(const AVFrame& first, AVColorSpace matrix);
  void make_cuts_exact(AVFilterGraph& graph) const;
  bool fits(const AVFrame& frame) const noexcept;
  void give(AVFrame& frame);
  void end();
  void take_ready(std::vector<av::FramePtr>& out);
  std::string action() const;

  ChainInput input_;
  std::string description_;
  std::string source_;
  av::FilterGraphPtr graph_;
  AVFilterContext* entry_ = nullptr;  // in graph_
  AVFilterContext* exit_ = nullptr;   // in graph_
  av::FramePtr like_;                 // format of the frames that graph_ was made for; no data
  av::FramePtr spare_;
  AVRational time_base_{0, 1};
  bool forgets_matrix_ = false;  // frames enter graph_ as if their colour space were unknown
  std::int64_t num_given_ = 0;
  std::int64_t end_of_last_ = AV_NOPTS_VALUE;  // in input_.time_base
};

}  // namespace spdl
