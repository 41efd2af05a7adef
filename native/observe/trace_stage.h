// The tracks of one stage in a trace: as many as it had calls at the same time.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "observe/trace_track.h"

namespace spdl {

class TraceStage {
 public:
  // Number of the track for a slice, from 0; perhaps one more than there are: then `add` it.
  //
  // Slices come in the order of their ends. The track that became free last is the best: it leaves those that have been
  // free for long to slices that began earlier.
  std::size_t choose(double began, double ended);

  void add(TraceTrack track) { tracks_.push_back(std::move(track)); }
  std::size_t num_tracks() const noexcept { return tracks_.size(); }
  const TraceTrack& track(std::size_t number) const { return tracks_.at(number); }

 private:
  std::vector<TraceTrack> tracks_;
  std::vector<double> ends_;  // of the newest slice of each
};

}  // namespace spdl
