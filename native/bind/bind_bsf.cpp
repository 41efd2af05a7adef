#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "bind/gil.h"
#include "bind/handle.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "media/bsf.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kPackets = "AudioPackets | VideoPackets | ImagePackets";

struct BsfObject : Handle<BitStreamFilter> {
  using Handle::Handle;
};

// `run` is called without the GIL.
template <class Run>
nb::object packets_from(Run&& run) {
  std::optional<Packets> packets;
  {
    const GilReleased released;
    packets = run();
  }
  return packets->packets.empty() ? nb::none() : wrap(std::move(*packets));
}

}  // namespace

void register_bsf(nb::module_& module) {
  nb::class_<BsfObject>(module, "BSF", "A chain of bit stream filters. ``spdl.io.BSF`` says more.")
      .def(
          "__init__",
          [](BsfObject* self, nb::handle codec, const std::string& bsf) {
            const CodecPtr found = codec_in(codec, "codec");
            const GilReleased released;
            new (self) BsfObject(BitStreamFilter(*found, bsf));
          },
          "codec"_a, "bsf"_a, nb::sig("def __init__(self, codec: AudioCodec | VideoCodec | ImageCodec, bsf: str) -> None"))
      .def(
          "filter",
          [](BsfObject& self, nb::handle packets, bool flush) {
            Handle<Packets>& from = packets_in(packets, "packets");
            return packets_from([&] { return self.own("the filter")->filter(*from.read("packets"), flush); });
          },
          "packets"_a, "flush"_a,
          nb::sig((std::string("def filter(self, packets: ") + kPackets + ", flush: bool) -> " + kPackets + " | None")
                      .c_str()),
          "Filter packets. With ``flush``, return the filter's remaining packets as well.")
      .def(
          "flush", [](BsfObject& self) { return packets_from([&] { return self.own("the filter")->flush(); }); },
          nb::sig((std::string("def flush(self) -> ") + kPackets + " | None").c_str()), "Return the filter's remaining packets.");
  module.def(
      "apply_bsf",
      [](nb::handle packets, const std::string& bsf) {
        Handle<Packets>& from = packets_in(packets, "packets");
        return packets_from([&] { return apply_bsf(*from.read("packets"), bsf); });
      },
      "packets"_a, "bsf"_a,
      nb::sig((std::string("def apply_bsf(packets: ") + kPackets + ", bsf: str) -> " + kPackets + " | None").c_str()),
      "Apply bit stream filters to packets, in one call.");
}

}  // namespace spdl::bind
