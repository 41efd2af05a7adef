#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "bind/gil.h"
#include "bind/handle.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "media/filter_graph.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kClassDoc = R"(A graph of FFmpeg's filters, with any number of inputs and outputs.

Inputs are the nodes ``buffer`` (pictures) and ``abuffer`` (samples), outputs ``buffersink`` and ``abuffersink``;
write ``buffer@name`` to name one. :func:`get_buffer_desc` and :func:`get_abuffer_desc` write inputs for the frames
of a decoder. A graph may turn samples into pictures. It runs in the thread that calls it.

.. code-block:: python

   graph = FilterGraph(f"{get_buffer_desc(codec)},hflip,buffersink")
   graph.add_frames(frames)
   graph.flush()
   flipped = graph.get_frames()

Args:
    filter_desc: The description, in FFmpeg's syntax.

Raises:
    FilterError: FFmpeg rejects the description; the message ends with FFmpeg's own.

Releases the GIL. A call while another thread is using the graph raises ``MediaError``.)";

constexpr const char* kAddDoc = R"(Pass frames to an input.

Args:
    frames: Frames that match the input: in size and pixel format, or in sample rate, channels and sample format.
        They are consumed. Their timestamps are converted to the time base of the input.
    key: The name of the input, such as ``buffer@in0``; required if there are several.

Raises:
    UnknownNodeError: There is no such input; the message lists the existing ones.
    FilterError: The frames do not match; the graph was flushed; there are several inputs and no key.
    ConsumedError: The frames were already consumed.)";

constexpr const char* kGetDoc = R"(Return the frames that are ready at an output.

Args:
    key: The name of the output, such as ``buffersink@out1``; required if there are several.

Returns:
    ``AudioFrames`` or ``VideoFrames``; ``None`` if nothing is ready, which after :meth:`flush` means the end.
    A graph can output more frames than it got, even without end: one call returns at most 256 frames, and 16
    more for each frame that was added. Call until ``None`` to get all.

Raises:
    UnknownNodeError: There is no such output; the message lists the existing ones.
    FilterError: A filter failed; there are several outputs and no key.)";

constexpr const char* kFlushDoc = R"(Signal the end of the inputs, so that the graph outputs its remaining frames.)";

constexpr const char* kDumpDoc = R"(FFmpeg's text diagram of the graph: nodes, links, and the format of each link.)";

constexpr const char* kWhat = "the filter graph";

struct GraphObject : Handle<FilterGraph> {
  using Handle::Handle;
  // Filters may have to wait for their threads, and their frames may release memory of Python objects.
  ~GraphObject() {
    const GilReleased released;
    const FilterGraph last = take(kWhat);
  }
};

void construct(GraphObject* self, const std::string& description) {
  const GilReleased released;
  new (self) GraphObject(FilterGraph(description));
}

void add_frames(GraphObject& self, const nb::object& object, const FilterGraph::Key& key) {
  Handle<Frames>& frames = frames_in(object, "frames");
  const GilReleased released;
  const auto graph = self.own(kWhat);
  graph->expect_input(key);  // before the frames are consumed: a wrong key must not consume them
  graph->add_frames(frames.take("frames"), key);
}

nb::object get_frames(GraphObject& self, const FilterGraph::Key& key) {
  std::optional<Frames> frames;
  {
    const GilReleased released;
    frames = self.own(kWhat)->get_frames(key);
  }
  return frames ? wrap(std::move(*frames)) : nb::none();
}

void flush(GraphObject& self) {
  const GilReleased released;
  self.own(kWhat)->flush();
}

std::string dump(const GraphObject& self) {
  const GilReleased released;
  return self.read(kWhat)->dump();
}

std::string repr(const GraphObject& self) {
  const auto graph = self.read(kWhat);
  const auto joined = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      text += (text.empty() ? "" : ", ") + name;
    }
    return text;
  };
  return "FilterGraph<inputs=[" + joined(graph->input_names()) + "], outputs=[" + joined(graph->output_names()) + "]>";
}

}  // namespace

void register_filter_graph(nb::module_& module) {
  nb::class_<GraphObject>(module, "FilterGraph", kClassDoc)
      .def("__init__", &construct, "filter_desc"_a)
      .def("add_frames", &add_frames, "frames"_a.none(), nb::kw_only(), "key"_a = nb::none(),
           nb::sig("def add_frames(self, frames: AudioFrames | VideoFrames | ImageFrames, *, "
                   "key: str | None = None) -> None"),
           kAddDoc)
      .def("get_frames", &get_frames, nb::kw_only(), "key"_a = nb::none(),
           nb::sig("def get_frames(self, *, key: str | None = None) -> AudioFrames | VideoFrames | None"), kGetDoc)
      .def("flush", &flush, kFlushDoc)
      .def("dump", &dump, kDumpDoc)
      .def("__repr__", &repr);
}

}  // namespace spdl::bind
