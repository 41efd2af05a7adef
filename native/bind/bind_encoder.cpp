#include "bind/bind_encoder.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "media/encode_picture.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kVideoDoc = R"(Turns pictures into packets of one stream; made by ``Muxer.add_encode_stream``.

It is independent of the muxer once made. One thread at a time: a call from a second thread raises ``MediaError``.)";

constexpr const char* kAudioDoc = R"(Turns samples into packets of one stream; made by ``Muxer.add_encode_stream``.

It is independent of the muxer once made. One thread at a time: a call from a second thread raises ``MediaError``.)";

constexpr const char* kEncodeVideoDoc = R"(Encode pictures.

Args:
    frames: The pictures, of the encoder's size and pixel format. Consumed, even if encoding fails.
        Timestamps are rounded to multiples of ``1 / frame_rate`` and must increase by at least one of them.
        ``VideoFrames`` without timestamps, and ``ImageFrames``, follow the previous frame.

Returns:
    ``VideoPackets`` with the codec, which can be written, decoded or remuxed; or None, as encoders look ahead.

Raises:
    EncodeError: The frames differ in size or format from what the encoder was made for (the message names both,
        and none of them was encoded), timestamps do not increase, the encoder was flushed, or it fails.
    ConsumedError: The frames were already consumed.
    TypeError: The frames are not pictures.

Releases the GIL.)";

constexpr const char* kEncodeAudioDoc = R"(Encode samples.

Args:
    frames: The samples, in the encoder's sample format, sample rate and number of channels; any number of them,
        which are regrouped if the encoder takes a fixed number at a time. Consumed, even if encoding fails. Frames
        without timestamps follow the previous samples. A gap in the timestamps becomes a gap between packets, after
        silence up to the end of a packet; an overlap is an error. Rounding is neither.

Returns:
    ``AudioPackets`` with the codec, which can be written, decoded or remuxed; or None, as encoders look ahead.

Raises:
    EncodeError: The frames differ from what the encoder was made for (the message names both, and none of them
        was encoded), timestamps overlap, the encoder was flushed, or it fails.
    ConsumedError: The frames were already consumed.
    TypeError: The frames are not samples.

Releases the GIL.)";

constexpr const char* kFlushDoc = R"(Return the remaining packets of the encoder, or None. A second call returns None.

Raises:
    EncodeError: The encoder fails.

Releases the GIL.)";

constexpr const char* kPictureDoc = R"(Encode a picture to the bytes of an image file.

Args:
    pixels: The planes one after the other, rows without padding, in the size and pixel format of ``config``.
    config: The format of the picture, and how to encode it. A pixel format that the encoder does not support is
        converted.
    name: The name of the file, whose extension selects the format.

Releases the GIL.)";

using Name = std::optional<std::string>;
using Count = std::optional<int>;

void set_video(VideoEncodeConfig* self, int height, int width, const std::optional<std::pair<int, int>>& frame_rate,
               std::string pix_fmt, std::optional<std::int64_t> bit_rate, Count compression_level, Count qscale,
               Count gop_size, Count max_b_frames, Name colorspace, Name color_primaries, Name color_trc) {
  new (self) VideoEncodeConfig;
  self->height = height;
  self->width = width;
  if (frame_rate) {
    self->frame_rate = AVRational{frame_rate->first, frame_rate->second};
  }
  self->pix_fmt = std::move(pix_fmt);
  self->bit_rate = bit_rate;
  self->compression_level = compression_level;
  self->qscale = qscale;
  self->gop_size = gop_size;
  self->max_b_frames = max_b_frames;
  self->colorspace = std::move(colorspace);
  self->color_primaries = std::move(color_primaries);
  self->color_trc = std::move(color_trc);
}

void set_audio(AudioEncodeConfig* self, int num_channels, int sample_rate, std::string sample_fmt,
               std::optional<std::int64_t> bit_rate, Count compression_level, Count qscale) {
  new (self) AudioEncodeConfig;
  self->num_channels = num_channels;
  self->sample_rate = sample_rate;
  self->sample_fmt = std::move(sample_fmt);
  self->bit_rate = bit_rate;
  self->compression_level = compression_level;
  self->qscale = qscale;
}

nb::bytes encode_pixels(nb::handle pixels, const VideoEncodeConfig& config, const std::string& name) {
  const Export held(pixels, false, "data");
  const std::size_t expected = picture_bytes(config);
  if (held.size() != expected) {
    throw nb::value_error(("data must have " + std::to_string(expected) + " bytes, got " + std::to_string(held.size()))
                              .c_str());
  }
  std::vector<std::uint8_t> encoded;
  {
    const GilReleased released;
    encoded = encode_picture({held.data(), held.size()}, config, name);
  }
  return nb::bytes(encoded.data(), encoded.size());
}

nb::object some(Packets packets) { return packets.packets.empty() ? nb::none() : wrap(std::move(packets)); }

template <MediaType type>
nb::object encode(EncoderObject<type>& self, nb::handle object) {
  Handle<Frames>& frames = frames_in(object, "frames");
  if (nb::isinstance<AudioFrames>(object) != (type == MediaType::kAudio)) {
    const std::string message = std::string(type == MediaType::kAudio ? "AudioEncoder takes AudioFrames"
                                                                      : "VideoEncoder takes VideoFrames or ImageFrames") +
                                ", got " + nb::cast<nb::str>(object.type().attr("__name__")).c_str();
    throw nb::type_error(message.c_str());
  }
  Packets packets;
  {
    const GilReleased released;
    const auto encoder = self.own("the encoder");
    packets = encoder->encode(frames.take("the frames"));
  }
  return some(std::move(packets));
}

template <MediaType type>
nb::object flush(EncoderObject<type>& self) {
  Packets packets;
  {
    const GilReleased released;
    packets = self.own("the encoder")->flush();
  }
  return some(std::move(packets));
}

}  // namespace

void register_encoder(nb::module_& module) {
  nb::class_<VideoEncodeConfig>(module, "VideoEncodeConfig", "The native form of ``spdl.io.VideoEncodeConfig``.")
      .def("__init__", &set_video, nb::kw_only(), "height"_a, "width"_a, "frame_rate"_a.none(), "pix_fmt"_a,
           "bit_rate"_a.none(), "compression_level"_a.none(), "qscale"_a.none(), "gop_size"_a.none(),
           "max_b_frames"_a.none(), "colorspace"_a.none(), "color_primaries"_a.none(), "color_trc"_a.none());
  nb::class_<AudioEncodeConfig>(module, "AudioEncodeConfig", "The native form of ``spdl.io.AudioEncodeConfig``.")
      .def("__init__", &set_audio, nb::kw_only(), "num_channels"_a, "sample_rate"_a, "sample_fmt"_a,
           "bit_rate"_a.none(), "compression_level"_a.none(), "qscale"_a.none());
  nb::class_<VideoEncoder>(module, "VideoEncoder", nb::is_weak_referenceable(), kVideoDoc)
      .def("encode", &encode<MediaType::kVideo>, "frames"_a,
           nb::sig("def encode(self, frames: VideoFrames | ImageFrames) -> VideoPackets | None"), kEncodeVideoDoc)
      .def("flush", &flush<MediaType::kVideo>, nb::sig("def flush(self) -> VideoPackets | None"), kFlushDoc);
  nb::class_<AudioEncoder>(module, "AudioEncoder", nb::is_weak_referenceable(), kAudioDoc)
      .def("encode", &encode<MediaType::kAudio>, "frames"_a,
           nb::sig("def encode(self, frames: AudioFrames) -> AudioPackets | None"), kEncodeAudioDoc)
      .def("flush", &flush<MediaType::kAudio>, nb::sig("def flush(self) -> AudioPackets | None"), kFlushDoc)
      .def_prop_ro(
          "frame_size", [](const AudioEncoder& self) { return self.read("the encoder")->frame_size(); },
          "Samples that the encoder takes at a time; 0 means any number. Frames of other sizes are regrouped.");
  module.def("encode_picture", &encode_pixels, "pixels"_a, "config"_a, "name"_a,
             nb::sig("def encode_picture(pixels: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any], "
                     "config: VideoEncodeConfig, name: str) -> bytes"),
             kPictureDoc);
}

}  // namespace spdl::bind
