// The lines of a trace for the calls on one track: JSON of which only four numbers differ.
//
// Python's conversion of a time stamp of 16 digits takes longer than all of this.

#pragma once

#include <cstdint>
#include <string>

namespace spdl {

class TraceTrack {
 public:
  // A line is `head`, the number of the item, `middle`, the times, the flow, and `tail`. `offset` is added to the times
  // of beginnings, in microseconds, and `first_flow` to the numbers of items.
  TraceTrack(std::string head, std::string middle, std::string tail, double offset, std::uint64_t first_flow);

  // The line of a call on this item. Times in seconds.
  std::string line(std::int64_t item, double began, double ended) const;

 private:
  std::string head_;
  std::string middle_;
  std::string tail_;
  double offset_;
  std::uint64_t first_flow_;
};

}  // namespace spdl
