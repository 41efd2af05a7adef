#include "observe/trace_track.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace spdl {
namespace {

constexpr std::string_view kWait = "wait";
constexpr std::string_view kMore = " more";
constexpr std::string_view kAnd = " and ";
constexpr std::string_view kDuration = R"(,"dur":)";
constexpr std::string_view kFlow = R"(,"bind_id":"0x)";
constexpr std::string_view kEnd = "},\n";
constexpr std::size_t kMostDigits = 24;

void append(std::string& text, auto number, int base = 10) {
  char digits[kMostDigits];
  const auto end = std::to_chars(digits, digits + kMostDigits, number, base).ptr;
  text.append(digits, end);
}

// With three digits after the point, of which the last are nanoseconds.
void append_time(std::string& text, double microseconds) {
  const auto nanoseconds = std::llround(microseconds * 1e3);
  const auto size = static_cast<unsigned long long>(std::llabs(nanoseconds));
  if (nanoseconds < 0) text += '-';
  append(text, size / 1000);
  const auto rest = static_cast<unsigned>(size % 1000);
  text += '.';
  text += static_cast<char>('0' + rest / 100);
  text += static_cast<char>('0' + rest / 10 % 10);
  text += static_cast<char>('0' + rest % 10);
}

}  // namespace

TraceTrack::TraceTrack(std::string head, std::string middle, std::string tail, double offset, std::uint64_t first_flow)
    : head_(std::move(head)),
      middle_(std::move(middle)),
      tail_(std::move(tail)),
      offset_(offset),
      first_flow_(first_flow) {}

void TraceTrack::append_call(std::string& text, std::int64_t item, std::size_t num_more, double began,
                             double ended) const {
  text += head_;
  append(text, item);
  if (num_more != 0) {
    text += kAnd;
    append(text, num_more);
    text += kMore;
  }
  append_times(text, began, ended);
  text += kFlow;
  append(text, first_flow_ + static_cast<std::uint64_t>(item), 16);
  text += '"';
  text += tail_;
  text += kEnd;
}

void TraceTrack::append_wait(std::string& text, double began, double ended) const {
  text += head_;
  text += kWait;
  append_times(text, began, ended);
  text += kEnd;
}

void TraceTrack::append_times(std::string& text, double began, double ended) const {
  text += middle_;
  append_time(text, began * 1e6 + offset_);
  text += kDuration;
  append_time(text, (ended - began) * 1e6);
}

}  // namespace spdl
