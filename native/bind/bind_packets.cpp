#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/compat.h"
#include "av/names.h"
#include "bind/gil.h"
#include "bind/objects.h"
#include "bind/shared_bytes.h"
#include "bind/registration.h"
#include "media/measure.h"
#include "media/repr.h"
#include "media/serialize_packets.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kAudioDoc = R"(Encoded audio of one stream, the input of a decoder.

``len()`` counts packets; with a window, those that overlap it. Decoding consumes packets: using them again
raises ``ConsumedError``. Two clones may be used by two threads.)";

constexpr const char* kVideoDoc = R"(Encoded pictures of one stream, the input of a decoder.

``len()`` counts packets; with a window, those in it, without the ones from the preceding key frame on, which decoding
needs too. Decoding consumes packets: using them again raises ``ConsumedError``. Two clones may be used by two
threads.)";

constexpr const char* kImageDoc = R"(One encoded picture, the input of a decoder.

Decoding consumes packets: using them again raises ``ConsumedError``. Two clones may be used by two threads.)";

constexpr const char* kTimestampsDoc = R"(Presentation times in seconds, in display order, of the packets in the window.

Args:
    raw: Whether to return those of all packets instead, in decoding order.)";

constexpr const char* kDeserializeDoc = R"(Restore packets from the bytes that ``__getstate__`` returned, without a copy; the packets keep the bytes alive.

Raises:
    MediaError: The bytes are not serialized packets, or packets of another media type.)";

constexpr const char* kDeserializeViewDoc = R"(Restore packets whose encoded data stays in a buffer, such as shared memory.

The packets keep the buffer alive; it must not change. A clone has its own memory.

Raises:
    TypeError: The argument is not a contiguous buffer.
    MediaError: The bytes are not serialized packets, or packets of another media type.)";

constexpr const char* kCloneDoc =
    "A clone of the packets, which is consumed on its own. The encoded data is shared, not copied.";

std::pair<int, int> pair_of(AVRational value) { return {value.num, value.den}; }

// The packets' codec with all parameters that users can read, for which a picture may have to be decoded; null if there
// is none. The GIL is held.
CodecPtr complete_codec(Handle<Packets>& packets) {
  CodecPtr codec;
  {
    const GilReleased released;
    const auto guard = packets.read("packets");
    codec = measure(*guard);
    if (codec == guard->codec) {
      return codec;
    }
  }
  try {
    packets.own("packets")->codec = codec;
  } catch (const Error&) {
    // Another thread is reading them, so they stay as they were.
  }
  return codec;
}

// The same, but throws an Error if there is no codec.
CodecPtr codec_of(Handle<Packets>& packets) {
  CodecPtr codec = complete_codec(packets);
  if (!codec) {
    throw Error(ErrorKind::kNoCodec, "get the format of the packets of",
                "they carry no codec, as packets from streaming; ask the Demuxer for its codec")
        .in(packets.read("packets")->source);
  }
  return codec;
}

nb::bytes as_bytes(const Packets& packets) {
  const nb::object bytes =
      nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(serialized_size(packets))));
  if (!bytes.is_valid()) {
    throw nb::python_error();
  }
  auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AsString(bytes.ptr()));
  {
    const GilReleased released;
    serialize(packets, out);
  }
  return nb::borrow<nb::bytes>(bytes);
}

// Packets whose data is the object's memory. `is_view`: the memory is shared with others.
Packets from_memory(nb::handle object, bool is_view, const nb::args& others = nb::args()) {
  const SharedBytes in_band = share(object, "data");
  const std::vector<SharedBytes> out_of_band = share_all(others, "data");
  const GilReleased released;
  Packets packets = deserialize_packets(in_band, out_of_band);
  packets.is_view = is_view;
  return packets;
}

template <MediaType type>
nb::object of_type(Packets packets) {
  if (packets.type != type) {
    throw Error(ErrorKind::kMedia, "restore packets from bytes",
                std::string("they are of ") + name_of(packets.type) + ", not of " + name_of(type));
  }
  return wrap(std::move(packets));
}

// For pickle: from protocol 5 on, the bytes may go out of band.
template <class Self>
nb::tuple reduce(const Self& self, int protocol) {
  const nb::object restore = nb::module_::import_("spdl.io._restore").attr("restore_packets");
  const auto packets = self.read("packets");
  if (protocol < 5) {
    return nb::make_tuple(restore, nb::make_tuple(as_bytes(*packets)));
  }
  Serialized serialized;
  {
    const GilReleased released;
    serialized = serialize(*packets);
  }
  return nb::make_tuple(restore, as_pickle_buffers(std::move(serialized)));
}

template <MediaType type>
nb::class_<CodecObject<type>> register_codec(nb::module_& module, const char* name, const char* doc) {
  using Self = CodecObject<type>;
  return nb::class_<Self>(module, name, doc)
      .def_prop_ro(
          "name", [](const Self& self) { return std::string(avcodec_get_name(self.codec->parameters->codec_id)); },
          "FFmpeg's name of the codec, such as ``\"h264\"``.")
      .def_prop_ro(
          "time_base", [](const Self& self) { return pair_of(self.codec->time_base); },
          "Unit of time stamps in seconds: numerator and denominator.")
      .def("__repr__", [name = std::string(name)](const Self& self) { return name + repr(*self.codec); });
}

// What codecs of moving and of single pictures have in common.
template <MediaType type>
nb::class_<CodecObject<type>> register_picture_codec(nb::module_& module, const char* name, const char* doc) {
  using Self = CodecObject<type>;
  return register_codec<type>(module, name, doc)
      .def_prop_ro("width", [](const Self& self) { return self.codec->parameters->width; }, "In pixels.")
      .def_prop_ro("height", [](const Self& self) { return self.codec->parameters->height; }, "In pixels.")
      .def_prop_ro(
          "pix_fmt", [](const Self& self) { return av::pixel_format_name(self.codec->parameters->format); },
          "FFmpeg's name of the pixel format; ``\"none\"`` if it is not known.")
      .def_prop_ro(
          "sample_aspect_ratio",
          [](const Self& self) { return pair_of(self.codec->parameters->sample_aspect_ratio); },
          "Width to height of one pixel: numerator and denominator; ``(0, 1)`` if it is not known.");
}

template <MediaType type>
nb::class_<PacketsObject<type>> register_packets_class(nb::module_& module, const char* name, const char* doc) {
  using Self = PacketsObject<type>;
  return nb::class_<Self>(module, name, doc)
      .def_prop_ro(
          "codec", [](Self& self) { return wrap(complete_codec(self)); },
          nb::sig(type == MediaType::kAudio   ? "def codec(self) -> AudioCodec | None"
                  : type == MediaType::kVideo ? "def codec(self) -> VideoCodec | None"
                                              : "def codec(self) -> ImageCodec | None"),
          "Codec parameters; ``None`` for packets from streaming.")
      .def_prop_ro(
          "num_errors", [](const Self& self) { return self.read("packets")->num_errors; },
          "Number of read errors that were skipped: 0 unless ``tolerate_errors`` is set.")
      .def(
          "clone",
          [](const Self& self) {
            std::optional<Packets> copy;
            {
              const GilReleased released;
              copy = self.read("packets")->clone();
            }
            return wrap(std::move(*copy));
          },
          nb::sig(type == MediaType::kAudio   ? "def clone(self) -> AudioPackets"
                  : type == MediaType::kVideo ? "def clone(self) -> VideoPackets"
                                              : "def clone(self) -> ImagePackets"),
          kCloneDoc)
      .def(
          "__getstate__", [](const Self& self) { return as_bytes(*self.read("packets")); },
          "The packets as bytes, for ``deserialize``.")
      .def("__reduce_ex__", &reduce<Self>, "protocol"_a, nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) "
                                                          "-> tuple[typing.Any, ...]"))
      .def_static(
          "deserialize", [](const nb::bytes& data) { return of_type<type>(from_memory(data, false)); }, "data"_a,
          nb::sig(type == MediaType::kAudio   ? "def deserialize(data: bytes) -> AudioPackets"
                  : type == MediaType::kVideo ? "def deserialize(data: bytes) -> VideoPackets"
                                              : "def deserialize(data: bytes) -> ImagePackets"),
          kDeserializeDoc)
      .def_static(
          "deserialize_view",
          [](nb::handle data) { return of_type<type>(from_memory(data, true)); }, "data"_a,
          nb::sig(type == MediaType::kAudio   ? "def deserialize_view(data: typing_extensions.Buffer) -> AudioPackets"
                  : type == MediaType::kVideo ? "def deserialize_view(data: typing_extensions.Buffer) -> VideoPackets"
                                              : "def deserialize_view(data: typing_extensions.Buffer) -> ImagePackets"),
          kDeserializeViewDoc)
      .def("__repr__", [](Self& self) {
        complete_codec(self);
        return repr(*self.read("packets"));
      });
}

// What packets of sound and of moving pictures have in common.
template <MediaType type>
void add_times(nb::class_<PacketsObject<type>>& packets) {
  using Self = PacketsObject<type>;
  packets
      .def_prop_ro(
          "timestamp",
          [](const Self& self) -> std::optional<std::pair<double, double>> {
            const auto guard = self.read("packets");
            if (!guard->window) {
              return std::nullopt;
            }
            return std::pair(guard->window->start, guard->window->end);
          },
          "The window: start and end in seconds; ``None`` without one.")
      .def("__len__", [](const Self& self) { return num_in_window(*self.read("packets")); });
}

template <MediaType type>
void add_picture(nb::class_<PacketsObject<type>>& packets) {
  using Self = PacketsObject<type>;
  packets
      .def_prop_ro(
          "width", [](Self& self) { return codec_of(self)->parameters->width; }, "In pixels.")
      .def_prop_ro(
          "height", [](Self& self) { return codec_of(self)->parameters->height; }, "In pixels.")
      .def_prop_ro(
          "pix_fmt",
          [](Self& self) {
            return av::pixel_format_name(codec_of(self)->parameters->format);
          },
          "FFmpeg's name of the pixel format; ``\"none\"`` if it is not known.");
}

void register_codecs(nb::module_& module) {
  register_codec<MediaType::kAudio>(module, "AudioCodec", "Codec parameters of an audio stream. Immutable.")
      .def_prop_ro("sample_rate", [](const AudioCodec& self) { return self.codec->parameters->sample_rate; }, "In Hz.")
      .def_prop_ro("num_channels",
                   [](const AudioCodec& self) { return self.codec->parameters->ch_layout.nb_channels; })
      .def_prop_ro(
          "sample_fmt", [](const AudioCodec& self) { return av::sample_format_name(self.codec->parameters->format); },
          "FFmpeg's name of the sample format.")
      .def_prop_ro(
          "channel_layout",
          [](const AudioCodec& self) { return av::channel_layout_spec(self.codec->parameters->ch_layout); },
          "The channel layout as filters take it: ``\"0x3\"``, the mask of stereo; ``\"2c\"`` if only the number is known.");
  register_picture_codec<MediaType::kVideo>(module, "VideoCodec",
                                            "Codec parameters of a video stream. Immutable.")
      .def_prop_ro(
          "frame_rate", [](const VideoCodec& self) { return pair_of(self.codec->frame_rate); },
          "Frames per second: numerator and denominator; ``(0, 1)`` if it is not known.");
  register_picture_codec<MediaType::kImage>(module, "ImageCodec", "Codec parameters of an image. Immutable.");
}

}  // namespace

void register_packets(nb::module_& module) {
  register_codecs(module);

  auto audio = register_packets_class<MediaType::kAudio>(module, "AudioPackets", kAudioDoc);
  add_times(audio);
  audio
      .def_prop_ro(
          "sample_rate", [](AudioPackets& self) { return codec_of(self)->parameters->sample_rate; },
          "In Hz.")
      .def_prop_ro("num_channels", [](AudioPackets& self) {
        return codec_of(self)->parameters->ch_layout.nb_channels;
      });

  auto video = register_packets_class<MediaType::kVideo>(module, "VideoPackets", kVideoDoc);
  add_times(video);
  add_picture(video);
  video
      .def_prop_ro(
          "frame_rate", [](VideoPackets& self) { return pair_of(codec_of(self)->frame_rate); },
          "Frames per second: numerator and denominator; ``(0, 1)`` if it is not known.")
      .def_prop_ro(
          "time_base", [](const VideoPackets& self) { return pair_of(self.read("packets")->time_base); },
          "Unit of time stamps in seconds: numerator and denominator.")
      .def(
          "get_timestamps",
          [](const VideoPackets& self, bool raw) {
            const auto guard = self.read("packets");
            return raw ? packet_timestamps(*guard) : display_timestamps(*guard);
          },
          nb::kw_only(), "raw"_a = false, nb::call_guard<GilReleased>(), kTimestampsDoc);

  module.def(
      "deserialize",
      [](nb::handle data, const nb::args& others) {
        return wrap(from_memory(data, !nb::isinstance<nb::bytes>(data), others));
      },
      "data"_a, "others"_a,
      nb::sig("def deserialize(data: typing_extensions.Buffer, *others: typing_extensions.Buffer) -> "
              "AudioPackets | VideoPackets | ImagePackets"),
      "Restore packets of any media type from the bytes that their ``__getstate__`` or ``__reduce_ex__`` returned.");

  auto image = register_packets_class<MediaType::kImage>(module, "ImagePackets", kImageDoc);
  add_picture(image);
}

}  // namespace spdl::bind
