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
#include "bind/media_sources.h"
#include "bind/memory.h"
#include "bind/objects.h"
#include "bind/registration.h"
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
    from_first_sample: For audio, whether the window is from the first sample on, and not by the container's clock.
    bsf: The description of bit stream filters.
    index: The stream, instead of the best one.)";

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
  DemuxerObject(HeldMedia source, DemuxConfig config) : held_(std::move(source.held)), name_(std::move(source.name)) {
    const Interruptible interruptible;
    const GilReleased released;
    demuxer_.emplace(Demuxer(std::move(source.source), name_, std::move(config)));
  }
  ~DemuxerObject() {
    const GilReleased released;
    demuxer_.reset();
  }

  // Called with the GIL; releases it to close, because a file system may be slow.
  void close() {
    if (demuxer_->is_gone()) {
      return;
    }
    if (is_closing_.exchange(true)) {
      return;  // another thread is using it
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

  // Without the GIL. Throws Error: kClosed, kMedia (another thread is using it).
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
                 const std::optional<std::string>& bsf, std::optional<int> index, bool from_first_sample) {
  const MediaType type = parse_kind(kind);
  std::optional<TimeWindow> span;
  if (window) {
    span = TimeWindow{window->first, window->second};
  }
  std::optional<Packets> packets;
  {
    const Interruptible interruptible;
    const GilReleased released;
    packets = self.use()->demux(type, span, bsf, index, SoundUse::kFilter,
                                from_first_sample ? SoundClock::kFirstSample : SoundClock::kStream);
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

nb::object codec_at(DemuxerObject& self, int index) {
  CodecPtr found;
  {
    const Interruptible interruptible;
    const GilReleased released;
    found = self.use()->codec(index);
  }
  return wrap(std::move(found));
}

// Text in files may be in any encoding.
nb::object text(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

nb::dict words(const Tags& tags) {
  nb::dict result;
  for (const auto& [key, value] : tags) {
    result[text(key)] = text(value);
  }
  return result;
}

nb::object ratio(const std::optional<AVRational>& number) {
  return number ? nb::object(nb::make_tuple(number->num, number->den)) : nb::none();
}

nb::dict words(const StreamFacts& facts) {
  nb::dict result;
  result["index"] = facts.index;
  result["type"] = facts.type;
  result["codec"] = facts.codec;
  result["profile"] = facts.profile;
  result["start"] = facts.start;
  result["duration"] = facts.duration;
  result["time_base"] = ratio(facts.time_base);
  result["bit_rate"] = facts.bit_rate;
  result["num_frames"] = facts.num_frames;
  result["is_default"] = facts.is_default;
  result["tags"] = words(facts.tags);
  if (facts.type == "video") {
    result["is_cover"] = facts.is_cover;
    result["height"] = facts.height;
    result["width"] = facts.width;
    result["frame_rate"] = ratio(facts.frame_rate);
    result["sample_aspect_ratio"] = ratio(facts.sample_aspect_ratio);
    result["orientation"] = static_cast<int>(facts.orientation);
    result["pix_fmt"] = facts.pix_fmt;
    result["color_space"] = facts.color_space;
    result["color_range"] = facts.color_range;
    result["color_primaries"] = facts.color_primaries;
    result["color_trc"] = facts.color_trc;
  } else if (facts.type == "audio") {
    result["sample_rate"] = facts.sample_rate;
    result["num_channels"] = facts.num_channels;
    result["channel_layout"] = facts.channel_layout;
    result["sample_fmt"] = facts.sample_fmt;
  }
  return result;
}

nb::tuple facts(DemuxerObject& self) {
  ContainerFacts found;
  {
    const Interruptible interruptible;
    const GilReleased released;
    found = self.use()->facts();
  }
  nb::dict container;
  container["format"] = found.format;
  container["start"] = found.start;
  container["duration"] = found.duration;
  container["bit_rate"] = found.bit_rate;
  container["tags"] = words(found.tags);
  nb::list streams;
  for (const StreamFacts& stream : found.streams) {
    streams.append(words(stream));
  }
  return nb::make_tuple(container, streams);
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
            new (self) DemuxerObject(hold_media(source, name, "a source in memory"),
                                     {std::move(format), std::move(format_options), buffer_size, tolerate_errors,
                                      std::move(protocols), timeout, {}});
          },
          "source"_a, nb::kw_only(), "name"_a.none(), "format"_a.none(), "format_options"_a, "buffer_size"_a,
          "tolerate_errors"_a, "protocols"_a.none(), "timeout"_a.none(),
          nb::sig("def __init__(self, source: str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8], *, "
                  "name: str | None, format: str | None, format_options: dict[str, str], buffer_size: int, "
                  "tolerate_errors: bool, protocols: list[str] | None, timeout: float | None) -> None"))
      .def("close", &DemuxerObject::close, "Close the container and release the source. Idempotent.")
      .def("demux", &demux, "kind"_a, nb::kw_only(), "window"_a.none(), "bsf"_a.none(), "index"_a.none() = nb::none(),
           "from_first_sample"_a = false,
           nb::sig("def demux(self, kind: str, *, window: tuple[float, float] | None, bsf: str | None, "
                   "index: int | None = None, from_first_sample: bool = False) -> AudioPackets | VideoPackets | ImagePackets"),
           kDemuxDoc)
      .def(
          "has", [](DemuxerObject& self, const std::string& kind) { return self.use()->has(parse_kind(kind)); },
          "kind"_a, nb::call_guard<GilReleased>(), "Whether there is a stream of that media type.")
      .def(
          "stream_index",
          [](DemuxerObject& self, const std::string& kind) { return self.use()->stream_index(parse_kind(kind)); },
          "kind"_a, nb::call_guard<GilReleased>(), "Index of the best stream of that media type.")
      .def(
          "orientation",
          [](DemuxerObject& self, std::optional<int> stream) {
            const auto demuxer = self.use();
            return static_cast<int>(demuxer->orientation(demuxer->choose(MediaType::kVideo, stream)));
          },
          "stream"_a.none(),
          "Orientation for display of pictures of that video stream, or of the best one, numbered as in EXIF.")
      .def(
          "extent",
          [](DemuxerObject& self, const std::string& kind,
             std::optional<int> index) -> std::optional<std::pair<double, double>> {
            const auto extent = self.use()->extent(parse_kind(kind), index);
            return extent ? std::optional(std::pair(extent->start, extent->end)) : std::nullopt;
          },
          "kind"_a, "index"_a.none() = nb::none(), nb::call_guard<GilReleased>(),
          "Start and end of the best stream of that media type, or of that stream, in seconds; None if the container "
          "does not state them.")
      .def("facts", &facts,
           nb::sig("def facts(self) -> tuple[dict[str, typing.Any], list[dict[str, typing.Any]]]"),
           "Information on the container and on each stream; see ``spdl.io.probe``.")
      .def("codec_at", &codec_at, "index"_a, nb::sig("def codec_at(self, index: int) -> AudioCodec | VideoCodec"),
           "Codec of a stream of audio or video.")
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
