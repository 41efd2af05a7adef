#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bind/registration.h"
#include "observe/trace_stage.h"
#include "observe/trace_track.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kTrackDoc = R"(Writes the lines of a trace for the calls on one track.

Args:
    head: The text before the name.
    middle: The text between the name and the time.
    tail: The text after the number of the flow.
    offset: Microseconds to add to start times.
    first_flow: What to add to an item's number to get the number of its flow.)";

constexpr const char* kLinesDoc = R"(Writes the lines of a trace for all stages of a pipeline. Not thread-safe.

Args:
    nodes: The stages. They are compared by identity, and must outlive this object.)";

constexpr const char* kMakeDoc = R"(Return the lines of calls and waits, as UTF-8.

Args:
    notes: The recorded calls and waits, ordered by end time: the stage, the start and end times in seconds, the item,
        and the class of an exception. Without an item, the stage waited.
    begin_track: Called with the number of a stage that needs another track. Returns the lines that precede the track's
        own lines, and the track.
    other: Writes the line of a note of a rare kind, given the note, the number of its stage, and the number of its
        track in the stage.)";

// The fields of a note.
enum Field : std::uint8_t { kNode, kBegan, kEnded, kItem, kError };

nb::handle field_of(nb::handle note, Field field) {
  PyObject* const object = PyTuple_GetItem(note.ptr(), field);
  if (object == nullptr) {
    throw nb::python_error();
  }
  return object;
}

double seconds_of(nb::handle note, Field field) {
  const double seconds = PyFloat_AsDouble(field_of(note, field).ptr());
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
  return seconds;
}

// The position if the pipeline has one source; none for any other object.
std::optional<std::int64_t> position_of(nb::handle object) {
  if (!object.type().is(&PyLong_Type)) {
    return std::nullopt;
  }
  int is_too_large = 0;
  const long long position = PyLong_AsLongLongAndOverflow(object.ptr(), &is_too_large);
  if (is_too_large != 0) {
    return std::nullopt;
  }
  return position;
}

class TraceLines {
 public:
  explicit TraceLines(const nb::list& nodes) : stages_(nb::len(nodes)) {
    std::size_t number = 0;
    for (const nb::handle node : nodes) {
      numbers_.emplace(node.ptr(), number++);
    }
  }

  nb::bytes make(const nb::list& notes, const nb::callable& begin_track, const nb::callable& other) {
    std::string text;
    for (const nb::handle note : notes) {
      const std::size_t number = numbers_.at(field_of(note, kNode).ptr());
      TraceStage& stage = stages_[number];
      const double began = seconds_of(note, kBegan);
      const double ended = seconds_of(note, kEnded);
      const std::size_t track = stage.choose(began, ended);
      if (track == stage.num_tracks()) {
        const auto begun = nb::cast<nb::tuple>(begin_track(number));
        text += nb::cast<std::string>(begun[0]);
        stage.add(nb::cast<TraceTrack>(begun[1]));
      }
      if (!append_frequent(text, stage.track(track), note, began, ended)) {
        text += nb::cast<std::string>(other(note, number, track));
      }
    }
    return nb::bytes(text.data(), text.size());
  }

 private:
  // False: it is not one of the frequent kinds.
  static bool append_frequent(std::string& text, const TraceTrack& track, nb::handle note, double began, double ended) {
    if (!field_of(note, kError).is_none()) {
      return false;
    }
    nb::handle item = field_of(note, kItem);
    if (item.is_none()) {
      track.append_wait(text, began, ended);
      return true;
    }
    std::size_t num_more = 0;
    if (item.type().is(&PyTuple_Type)) {
      const Py_ssize_t size = PyTuple_Size(item.ptr());
      if (size < 1) {
        return false;
      }
      num_more = static_cast<std::size_t>(size - 1);
      item = PyTuple_GetItem(item.ptr(), 0);
    }
    const std::optional<std::int64_t> position = position_of(item);
    if (!position) {
      return false;
    }
    track.append_call(text, *position, num_more, began, ended);
    return true;
  }

  std::unordered_map<const PyObject*, std::size_t> numbers_;
  std::vector<TraceStage> stages_;
};

}  // namespace

void register_trace(nb::module_& module) {
  nb::class_<TraceTrack>(module, "TraceTrack", kTrackDoc)
      .def(nb::init<std::string, std::string, std::string, double, std::uint64_t>(), "head"_a, "middle"_a, "tail"_a,
           "offset"_a, "first_flow"_a);
  nb::class_<TraceLines>(module, "TraceLines", kLinesDoc)
      .def(nb::init<nb::list>(), "nodes"_a, nb::sig("def __init__(self, nodes: list[typing.Any]) -> None"))
      .def("make", &TraceLines::make, "notes"_a, "begin_track"_a, "other"_a,
           nb::sig("def make(self, notes: list[typing.Any], begin_track: collections.abc.Callable[[int], tuple[str, "
                   "TraceTrack]], other: collections.abc.Callable[[typing.Any, int, int], str]) -> bytes"),
           kMakeDoc);
}

}  // namespace spdl::bind
