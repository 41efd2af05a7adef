#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "media/decode.h"
#include "media/decode_array.h"
#include "media/sample.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kDecodeDoc = R"(Decode packets of any media type, which are consumed. See ``spdl.io.decode_packets``.)";
constexpr const char* kArrayDoc =
    R"(Decode packets to an array: ``decode_packets`` and ``convert_frames`` in one call, without frames in between if possible.)";
constexpr const char* kSampleDoc = R"(Decode some pictures of a video. See ``spdl.io.sample_decode_video``.)";

constexpr const char* kDecoderDoc = R"(Decodes the packets of a stream as they arrive. Made by ``spdl.io.Decoder``.

One thread at a time may use a decoder and its iterators.)";

constexpr const char* kStreamingDoc = R"(Give packets to the decoder, and iterate over the frames that are ready after them.

Args:
    packets: The packets, which are consumed. They are decoded as the iterator advances. If it is dropped before its
        end, the next iterator of this decoder continues there.

Returns:
    Iterator of frames: one batch, none if no frame is ready yet, or several batches where a buffer size is set.

Raises:
    ClosedError: The decoder was flushed.
    DecodeError: While iterating: the data is damaged. The rest of the packets is dropped.)";

constexpr const char* kFlushDoc = R"(Signal the end of the packets to the decoder, and iterate over the remaining frames.

A second flush returns no frames.)";

constexpr const char* kBufferDoc = R"(Limit the number of frames in a batch, which limits the memory for decoded pictures.

Args:
    buffer_size: The largest number of frames in a batch. 0, the default, means no limit.)";

constexpr const char* kWhatPackets = "packets";
constexpr const char* kWhatDecoder = "the decoder";

DecodeConfig make_config(std::optional<std::string> decoder, std::map<std::string, std::string> options,
                         bool tolerate_errors) {
  return {std::move(decoder), std::move(options), tolerate_errors};
}

// Consumes packets that can be decoded; packets without a codec are not consumed.
Packets take_decodable(nb::handle object) {
  Handle<Packets>& handle = packets_in(object, kWhatPackets);
  codec_of(*handle.read(kWhatPackets));
  return handle.take(kWhatPackets);
}

SoundCut cut_of(bool cuts_sound) noexcept { return cuts_sound ? SoundCut::kBehindFilter : SoundCut::kByFilter; }

nb::object decode(const nb::object& packets, const std::optional<std::string>& filter,
                  std::optional<std::string> decoder, std::map<std::string, std::string> options, bool tolerate_errors,
                  std::optional<std::size_t> num_frames, bool cuts_sound) {
  const DecodeConfig config = make_config(std::move(decoder), std::move(options), tolerate_errors);
  Packets taken = take_decodable(packets);
  Frames frames;
  {
    const GilReleased released;
    frames = decode_packets(std::move(taken), filter, config, num_frames, cut_of(cuts_sound));
  }
  return wrap(std::move(frames));
}

nb::object to_array(const nb::object& packets, const std::optional<std::string>& filter,
                    std::optional<std::string> decoder, std::map<std::string, std::string> options,
                    bool tolerate_errors, bool cuts_sound) {
  const DecodeConfig config = make_config(std::move(decoder), std::move(options), tolerate_errors);
  Packets taken = take_decodable(packets);
  DecodedArray array;
  {
    const GilReleased released;
    array = decode_array(std::move(taken), filter, config, cut_of(cuts_sound));
  }
  const ArrayLayout& layout = array.layout;
  return make_buffer({layout.shape.begin(), layout.shape.end()}, layout.type, std::move(array.memory));
}

nb::list sample(const nb::object& packets, const std::vector<std::size_t>& indices,
                const std::optional<std::string>& filter, std::optional<std::string> decoder,
                std::map<std::string, std::string> options, bool tolerate_errors) {
  const DecodeConfig config = make_config(std::move(decoder), std::move(options), tolerate_errors);
  Packets taken = take_decodable(packets);
  std::vector<Frames> pictures;
  {
    const GilReleased released;
    pictures = sample_video(std::move(taken), indices, filter, config);
  }
  nb::list result;
  for (Frames& picture : pictures) {
    result.append(wrap(std::move(picture)));
  }
  return result;
}

// Shared by a decoder's Python object and its iterators. The last owner drops it without the GIL, because a decoder
// with its own threads waits for them.
class SharedDecoder {
 public:
  explicit SharedDecoder(StreamDecoder decoder) : decoder_(std::make_shared<Handle<StreamDecoder>>(std::move(decoder))) {}
  SharedDecoder(const SharedDecoder&) = default;
  SharedDecoder(SharedDecoder&&) = default;
  SharedDecoder& operator=(const SharedDecoder&) = delete;
  SharedDecoder& operator=(SharedDecoder&&) = delete;
  ~SharedDecoder() {
    // The stable ABI's way to ask whether this thread holds the GIL.
    if (decoder_ != nullptr && decoder_.use_count() == 1 && PyThreadState_GetDict() != nullptr) {
      const GilReleased released;
      decoder_.reset();
    }
  }
  Handle<StreamDecoder>* operator->() const noexcept { return decoder_.get(); }

 private:
  std::shared_ptr<Handle<StreamDecoder>> decoder_;
};

template <MediaType type>
struct Decoder {
  SharedDecoder decoder;
};

// Advances the decoder; shares it with the decoder's Python object and other iterators.
template <MediaType type>
struct FramesIterator {
  SharedDecoder decoder;
  std::atomic<bool> is_done = false;  // once true, it stays true, even if the decoder gets more packets

  explicit FramesIterator(SharedDecoder shared) : decoder(std::move(shared)) {}
};

template <MediaType type>
Decoder<type> make_decoder(const CodecObject<type>& codec, std::optional<std::string> filter,
                           std::optional<std::string> decoder, std::map<std::string, std::string> options,
                           bool tolerate_errors) {
  const DecodeConfig config = make_config(std::move(decoder), std::move(options), tolerate_errors);
  const GilReleased released;
  return {SharedDecoder(StreamDecoder(*codec.codec, std::move(filter), config))};
}

template <MediaType type>
nb::object iterate(const Decoder<type>& self) {
  return nb::cast(new FramesIterator<type>(self.decoder), nb::rv_policy::take_ownership);
}

template <MediaType type>
nb::object streaming(const Decoder<type>& self, PacketsObject<type>& packets) {
  {
    const auto decoder = self.decoder->own(kWhatDecoder);
    decoder->expect_open(packets.read(kWhatPackets)->source);
    decoder->push(packets.take(kWhatPackets));
  }
  return iterate(self);
}

template <MediaType type>
nb::object flush(const Decoder<type>& self) {
  self.decoder->own(kWhatDecoder)->end();
  return iterate(self);
}

template <MediaType type>
nb::object next(FramesIterator<type>& self) {
  std::optional<Frames> batch;
  if (!self.is_done) {
    const GilReleased released;
    const auto decoder = self.decoder->own(kWhatDecoder);
    try {
      batch = decoder->next();
    } catch (...) {
      self.is_done = true;
      throw;
    }
  }
  if (!batch) {
    self.is_done = true;
    throw nb::stop_iteration();
  }
  return wrap(std::move(*batch));
}

template <MediaType type>
nb::class_<Decoder<type>> define(nb::module_& module, const std::string& kind) {
  const std::string iterator = kind + "FramesIterator";
  nb::class_<FramesIterator<type>>(module, iterator.c_str(), nb::is_final(), "Frames of a decoder, batch by batch.")
      .def("__iter__", [](nb::handle self) { return self; },
           nb::sig(("def __iter__(self) -> " + iterator).c_str()))
      .def("__next__", &next<type>, nb::sig(("def __next__(self) -> " + kind + "Frames").c_str()));
  module.def("make_decoder", &make_decoder<type>, "codec"_a, "filter_desc"_a.none(), "decoder"_a.none(), "options"_a,
             "tolerate_errors"_a, "A decoder for packets that arrive incrementally.");
  return nb::class_<Decoder<type>>(module, (kind + "Decoder").c_str(), nb::is_final(), nb::is_weak_referenceable(),
                                   kDecoderDoc)
      .def("streaming_decode_packets", &streaming<type>, "packets"_a,
           nb::sig(("def streaming_decode_packets(self, packets: " + kind + "Packets) -> " + iterator).c_str()),
           kStreamingDoc)
      .def("flush", &flush<type>, nb::sig(("def flush(self) -> " + iterator).c_str()), kFlushDoc);
}

void set_buffer_size(const Decoder<MediaType::kVideo>& self, Py_ssize_t size) {
  if (size < 0) {
    throw nb::value_error(("buffer_size must be >= 0, got " + std::to_string(size)).c_str());
  }
  self.decoder->own(kWhatDecoder)
      ->set_batch_size(size == 0 ? std::nullopt : std::optional(static_cast<std::size_t>(size)));
}

}  // namespace

void register_decoder(nb::module_& module) {
  module.def("decode_packets", &decode, "packets"_a, "filter_desc"_a.none(), "decoder"_a.none(), "options"_a,
             "tolerate_errors"_a, "num_frames"_a.none(), "cuts_sound"_a,
             nb::sig("def decode_packets(packets: AudioPackets | VideoPackets | ImagePackets, filter_desc: str | None, "
                     "decoder: str | None, options: collections.abc.Mapping[str, str], tolerate_errors: bool, "
                     "num_frames: int | None, cuts_sound: bool) -> AudioFrames | VideoFrames | ImageFrames"),
             kDecodeDoc);
  module.def("decode_array", &to_array, "packets"_a, "filter_desc"_a.none(), "decoder"_a.none(), "options"_a,
             "tolerate_errors"_a, "cuts_sound"_a,
             nb::sig("def decode_array(packets: AudioPackets | VideoPackets | ImagePackets, filter_desc: str | None, "
                     "decoder: str | None, options: collections.abc.Mapping[str, str], tolerate_errors: bool, "
                     "cuts_sound: bool) -> spdl.io.lib._core.CPUBuffer"),
             kArrayDoc);
  module.def("sample_video", &sample, "packets"_a, "indices"_a, "filter_desc"_a.none(), "decoder"_a.none(), "options"_a,
             "tolerate_errors"_a,
             nb::sig("def sample_video(packets: VideoPackets, indices: collections.abc.Sequence[int], "
                     "filter_desc: str | None, decoder: str | None, options: collections.abc.Mapping[str, str], "
                     "tolerate_errors: bool) -> list[ImageFrames]"),
             kSampleDoc);
  define<MediaType::kAudio>(module, "Audio");
  define<MediaType::kVideo>(module, "Video")
      .def("set_buffer_size", &set_buffer_size, "buffer_size"_a, kBufferDoc);
}

}  // namespace spdl::bind
