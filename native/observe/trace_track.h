// The lines of a trace for the calls on one track: JSON of which only four numbers differ.
//
// Python's conversion of a time stamp of 16 digits takes longer than all of this.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace spdl {

class TraceTrack {
 public:
  // A line is `head`, the name, `middle`, the times, the flow, and `tail`. `offset` is added to the times of beginnings,
  // in microseconds, and `first_flow` to the numbers of items.
  TraceTrack(std::string head, std::string middle, std::string tail, double offset, std::uint64_t first_flow);

  // Appends the line of a call on this item, or on a batch of it and so many more. Times in seconds.
  void append_call(std::string& text, std::int64_t item, std::size_t num_more, double began, double ended) const;

  // Appends the line of a wait. It belongs to no flow.
  void append_wait(std::string& text, double began, double ended) const;

 private:
  void append_times(std::string& text, double began, double ended) const;

  std::string head_;
  std::string middle_;
  std::string tail_;
  double offset_;
  std::uint64_t first_flow_;
};

}  // namespace spdl
