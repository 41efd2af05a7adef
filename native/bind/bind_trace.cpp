#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "bind/registration.h"
#include "observe/trace_track.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kTrackDoc = R"(Makes the lines of a trace for the calls on one track.

Args:
    head: What stands before the number of the item.
    middle: What stands between it and the time.
    tail: What stands after the number of the flow.
    offset: Microseconds to add to the times of beginnings.
    first_flow: What to add to the numbers of items, for those of their flows.)";

}  // namespace

void register_trace(nb::module_& module) {
  nb::class_<TraceTrack>(module, "TraceTrack", kTrackDoc)
      .def(nb::init<std::string, std::string, std::string, double, std::uint64_t>(), "head"_a, "middle"_a, "tail"_a,
           "offset"_a, "first_flow"_a)
      .def("line", &TraceTrack::line, "item"_a, "began"_a, "ended"_a,
           R"(Return the line of a call on this item. Times in seconds.)");
}

}  // namespace spdl::bind
