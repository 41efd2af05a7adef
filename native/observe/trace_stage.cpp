#include "observe/trace_stage.h"

#include <limits>

namespace spdl {

std::size_t TraceStage::choose(double began, double ended) {
  std::size_t best = ends_.size();
  double free_since = -std::numeric_limits<double>::infinity();
  for (std::size_t track = 0; track < ends_.size(); ++track) {
    const double end = ends_[track];
    if (free_since < end && end <= began) {
      best = track;
      free_since = end;
    }
  }
  if (best == ends_.size()) {
    ends_.push_back(ended);
  } else {
    ends_[best] = ended;
  }
  return best;
}

}  // namespace spdl
