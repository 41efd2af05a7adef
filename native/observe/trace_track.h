// The lines of a trace for the calls on one track: JSON in which only four numbers vary.
//
// Formatting one 16-digit time stamp in Python takes longer than all of this.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace spdl {

class TraceTrack {
 public:
  // A line is `head`, the name, `middle`, the times, the flow, and `tail`. `offset`, in microseconds, is added to start
  // times, and `first_flow` to item numbers.
  TraceTrack(std::string head, std::string middle, std::string tail, double offset, std::uint64_t first_flow);

  // Appends the line of a call on this item, or on a batch of it and `num_more` others. Times in seconds.
  void append_call(std::string& text, std::int64_t item, std::size_t num_more, double began, double ended) const;

  // Appends the line of a wait, which belongs to no flow.
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
