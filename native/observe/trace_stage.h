// The tracks of one stage in a trace: one for each of the calls that ran at the same time.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "observe/trace_track.h"

namespace spdl {

class TraceStage {
 public:
  // Number of the track for a slice, from 0. If it equals the number of tracks, `add` one.
  //
  // Slices must come in the order of their ends. The track that became free last is the best choice: tracks that have
  // been free for longer stay available for slices that began earlier.
  std::size_t choose(double began, double ended);

  void add(TraceTrack track) { tracks_.push_back(std::move(track)); }
  std::size_t num_tracks() const noexcept { return tracks_.size(); }
  const TraceTrack& track(std::size_t number) const { return tracks_.at(number); }

 private:
  std::vector<TraceTrack> tracks_;
  std::vector<double> ends_;  // the end of each track's newest slice
};

}  // namespace spdl
