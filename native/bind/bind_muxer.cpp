#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "bind/bind_encoder.h"
#include "bind/gil.h"
#include "bind/handle.h"
#include "bind/interrupt.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "media/muxer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

using Name = std::optional<std::string>;

constexpr const char* kMuxerDoc = R"(The native part of ``spdl.io.Muxer``.

Args:
    destination: The path in the file system's encoding, or a URL.
    name: The name of the destination in messages.
    format: The container format, instead of the one that the extension selects.)";

struct MuxerObject : Handle<Muxer> {
  MuxerObject(const nb::bytes& destination, std::string name, const Name& format)
      : Handle(Muxer(std::string(destination.c_str(), destination.size()), std::move(name), format)) {}
  // Closes a file that is still open, which may wait for a disk.
  ~MuxerObject() {
    const GilReleased released;
    static_cast<void>(take("the muxer"));
  }
};

template <class Object, class Config>
Object* add_encode_stream(MuxerObject& self, const Config& config, const Name& encoder, const av::Options& options) {
  return new Object(self.own("the muxer")->add_encode_stream(config, encoder, options));
}

void add_remux_stream(MuxerObject& self, nb::handle codec) {
  const CodecPtr found = codec_in(codec, "codec");
  self.own("the muxer")->add_remux_stream(*found);
}

void write(MuxerObject& self, int stream_index, nb::handle object) {
  const Handle<Packets>& packets = packets_in(object, "packets");
  const Interruptible interruptible;
  const GilReleased released;
  const auto muxer = self.own("the muxer");
  muxer->write(stream_index, *packets.read("the packets"));
}

}  // namespace

void register_muxer(nb::module_& module) {
  using Released = nb::call_guard<GilReleased>;
  using ReleasedAndInterruptible = nb::call_guard<Interruptible, GilReleased>;
  nb::class_<MuxerObject>(module, "Muxer", nb::is_weak_referenceable(), kMuxerDoc)
      .def(nb::init<const nb::bytes&, std::string, const Name&>(), "destination"_a, "name"_a, "format"_a.none())
      .def("add_encode_stream", &add_encode_stream<VideoEncoder, VideoEncodeConfig>, Released(), "config"_a,
           "encoder"_a.none(), "options"_a, nb::rv_policy::take_ownership)
      .def("add_encode_stream", &add_encode_stream<AudioEncoder, AudioEncodeConfig>, Released(), "config"_a,
           "encoder"_a.none(), "options"_a, nb::rv_policy::take_ownership)
      .def("add_remux_stream", &add_remux_stream, "codec"_a,
           nb::sig("def add_remux_stream(self, codec: AudioCodec | VideoCodec | ImageCodec) -> None"))
      .def("open", [](MuxerObject& self, const av::Options& options) { self.own("the muxer")->open(options); },
           ReleasedAndInterruptible(), "options"_a)
      .def("write", &write, "stream_index"_a, "packets"_a,
           nb::sig("def write(self, stream_index: int, packets: AudioPackets | VideoPackets | ImagePackets) -> None"))
      .def("flush", [](MuxerObject& self) { self.own("the muxer")->flush(); }, ReleasedAndInterruptible())
      .def("close", [](MuxerObject& self) { self.own("the muxer")->close(); }, ReleasedAndInterruptible());
}

}  // namespace spdl::bind
