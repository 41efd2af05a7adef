#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bind/gil.h"
#include "bind/handle.h"
#include "bind/interrupt.h"
#include "bind/memory.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "bind/sources.h"
#include "media/demuxer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kDemuxerDoc = R"(An open container; see ``spdl.io.Demuxer``.

Data in memory is read in place and kept alive until ``close()``. All methods release the GIL. One thread at a time:
a call from a second thread raises ``MediaError``.)";

constexpr const char* kDemuxDoc = R"(Read the packets of the best stream of a media type.

Args:
    kind: The media type: ``"audio"``, ``"video"`` or ``"image"``.
    window: The start and end in seconds.
    bsf: The description of bit stream filters.)";

constexpr const char* kReadDoc = R"(Read the next packets of each stream; none at the end of the data.

Args:
    reading: The return value of ``start_reading``.
    duration: The minimum duration in seconds. Reading continues to the end of a decodable group.
    num_packets: The number of packets of one stream after which to stop.)";

MediaType parse_kind(const std::string& kind) {
  for (const MediaType type : {MediaType::kAudio, MediaType::kVideo, MediaType::kImage}) {
    if (kind == name_of(type)) {
      return type;
    }
  }
  throw nb::value_error(("kind must be 'audio', 'video' or 'image', got '" + kind + "'").c_str());
}

class DemuxerObject {
 public:
  DemuxerObject(HeldSource source, std::string name, DemuxConfig config)
      : held_(std::move(source.held)), name_(std::move(name)) {
    const Interruptible interruptible;
    const GilReleased released;
    demuxer_.emplace(Demuxer(std::move(source.source), name_, std::move(config)));
  }
  ~DemuxerObject() {
    const GilReleased released;
    demuxer_.reset();
  }

  // The GIL is held; closing is not: a file system may take its time.
  void close() {
    if (demuxer_->is_gone()) {
      return;
    }
    if (is_closing_.exchange(true)) {
      return;  // another thread is at it
    }
    try {
      const GilReleased released;
      demuxer_->take("the demuxer");
    } catch (...) {
      is_closing_ = false;
      throw;
    }
    held_.reset();
  }

  const std::string& name() const noexcept { return name_; }

  // Without the GIL. Throws Error: kClosed, kMedia (another thread is at it).
  Handle<Demuxer>::Guard use() {
    try {
      return demuxer_->own("the demuxer");
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kConsumed || is_closing_) {
        throw Error(ErrorKind::kClosed, "demux", "the demuxer was closed").in(name_);
      }
      throw;
    }
  }

 private:
  std::optional<Export> held_;
  std::string name_;
  std::optional<Handle<Demuxer>> demuxer_;
  std::atomic<bool> is_closing_ = false;
};

nb::object demux(DemuxerObject& self, const std::string& kind, std::optional<std::pair<double, double>> window,
                 const std::optional<std::string>& bsf) {
  const MediaType type = parse_kind(kind);
  std::optional<TimeWindow> span;
  if (window) {
    span = TimeWindow{window->first, window->second};
  }
  std::optional<Packets> packets;
  {
    const Interruptible interruptible;
    const GilReleased released;
    packets = self.use()->demux(type, span, bsf);
  }
  return wrap(std::move(*packets));
}

nb::object codec(DemuxerObject& self, const std::string& kind) {
  const MediaType type = parse_kind(kind);
  CodecPtr found;
  {
    const Interruptible interruptible;
    const GilReleased released;
    found = self.use()->codec(type);
  }
  return wrap(std::move(found));
}

nb::dict read_some(DemuxerObject& self, int reading, std::optional<double> duration, std::optional<int> num_packets) {
  std::map<int, Packets> chunk;
  {
    const Interruptible interruptible;
    const GilReleased released;
    chunk = self.use()->read_some(reading, duration, num_packets);
  }
  nb::dict result;
  for (auto& [index, packets] : chunk) {
    result[nb::int_(index)] = wrap(std::move(packets));
  }
  return result;
}

}  // namespace

void register_demuxer(nb::module_& module) {
  nb::class_<DemuxerObject>(module, "Demuxer", kDemuxerDoc)
      .def(
          "__init__",
          [](DemuxerObject* self, nb::handle source, nb::handle name, std::optional<std::string> format,
             std::map<std::string, std::string> format_options, int buffer_size, bool tolerate_errors,
             std::optional<std::vector<std::string>> protocols, std::optional<double> timeout) {
            HeldSource held = hold_source(source, "a source in memory");
            std::string shown = name_of(held.source, name);
            new (self) DemuxerObject(std::move(held), std::move(shown),
                                     {std::move(format), std::move(format_options), buffer_size, tolerate_errors,
                                      std::move(protocols), timeout, {}});
          },
          "source"_a, nb::kw_only(), "name"_a.none(), "format"_a.none(), "format_options"_a, "buffer_size"_a,
          "tolerate_errors"_a, "protocols"_a.none(), "timeout"_a.none(),
          nb::sig("def __init__(self, source: str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8], *, "
                  "name: str | None, format: str | None, format_options: dict[str, str], buffer_size: int, "
                  "tolerate_errors: bool, protocols: list[str] | None, timeout: float | None) -> None"))
      .def("close", &DemuxerObject::close, "Close the container and release the source. Idempotent.")
      .def("demux", &demux, "kind"_a, nb::kw_only(), "window"_a.none(), "bsf"_a.none(),
           nb::sig("def demux(self, kind: str, *, window: tuple[float, float] | None, bsf: str | None) "
                   "-> AudioPackets | VideoPackets | ImagePackets"),
           kDemuxDoc)
      .def(
          "has", [](DemuxerObject& self, const std::string& kind) { return self.use()->has(parse_kind(kind)); },
          "kind"_a, nb::call_guard<GilReleased>(), "Whether there is a stream of that media type.")
      .def(
          "stream_index",
          [](DemuxerObject& self, const std::string& kind) { return self.use()->stream_index(parse_kind(kind)); },
          "kind"_a, nb::call_guard<GilReleased>(), "Index of the best stream of that media type.")
      .def(
          "extent",
          [](DemuxerObject& self, const std::string& kind) -> std::optional<std::pair<double, double>> {
            const auto extent = self.use()->extent(parse_kind(kind));
            return extent ? std::optional(std::pair(extent->start, extent->end)) : std::nullopt;
          },
          "kind"_a, nb::call_guard<GilReleased>(),
          "Start and end of the best stream of that media type in seconds; None if the container does not state them.")
      .def_prop_ro(
          "name", [](DemuxerObject& self) { return self.name(); }, "Name of the source in messages.")
      .def("codec", &codec, "kind"_a,
           nb::sig("def codec(self, kind: str) -> AudioCodec | VideoCodec | ImageCodec"),
           "Codec of the best stream of that media type.")
      .def(
          "start_reading",
          [](DemuxerObject& self, const std::set<int>& streams) { return self.use()->start_reading(streams); },
          "streams"_a, nb::call_guard<Interruptible, GilReleased>(),
          "Seek to the beginning, to read these streams incrementally; pass the result to ``read_some``.")
      .def("read_some", &read_some, "reading"_a, nb::kw_only(), "duration"_a.none(), "num_packets"_a.none(),
           nb::sig("def read_some(self, reading: int, *, duration: float | None, num_packets: int | None) "
                   "-> dict[int, AudioPackets | VideoPackets]"),
           kReadDoc);
}

}  // namespace spdl::bind
