#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
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
#include "media/picture_times.h"
#include "media/sample.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kDecodeDoc = R"(Decode packets of any media type, which are consumed. See ``spdl.io.decode_packets``.)";
constexpr const char* kArrayDoc =
    R"(Decode packets to an array: ``decode_packets`` and ``convert_frames`` in one call, without frames in between if possible.)";
constexpr const char* kTimesDoc = R"(Find the times of the pictures of packets, which are not consumed.

Args:
    by_decoding: Whether to decode the packets; otherwise, only they are looked at.

Returns:
    The times; ``None`` if packets do not tell.)";

constexpr const char* kSampleDoc = R"(Decode some pictures of a video. See ``spdl.io.sample_decode_video``.

Args:
    packets: The packets, which are consumed unless there is no picture for an index.
    indices: Positions in the ``PictureTimes`` that were found in the same way, ascending.
    by_decoding: Whether to decode all packets and to count; otherwise, only the groups of pictures that they need.

Returns:
    The pictures. If one is missing: the number of pictures with ``by_decoding``, otherwise ``None``.)";

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

std::optional<PictureTimes> find_times(const nb::object& packets, bool by_decoding, std::optional<std::string> decoder,
                                       std::map<std::string, std::string> options, bool tolerate_errors) {
  const DecodeConfig config = make_config(std::move(decoder), std::move(options), tolerate_errors);
  const Handle<Packets>& handle = packets_in(packets, kWhatPackets);
  const GilReleased released;
  const auto guard = handle.read(kWhatPackets);
  codec_of(*guard);
  return by_decoding ? times_by_decoding(*guard, config) : times_by_packets(*guard);
}

// None for what PictureTimes has none for.
std::vector<std::optional<std::size_t>> indices_at(const PictureTimes& times, const std::vector<std::int64_t>& ticks) {
  std::vector<std::optional<std::size_t>> indices;
  indices.reserve(ticks.size());
  for (const std::int64_t tick : ticks) {
    indices.push_back(times.index_at(tick));
  }
  return indices;
}

nb::object sample(const nb::object& packets, const std::vector<std::size_t>& indices, bool by_decoding,
                  const std::optional<std::string>& filter, std::optional<std::string> decoder,
                  std::map<std::string, std::string> options, bool tolerate_errors) {
  const DecodeConfig config = make_config(std::move(decoder), std::move(options), tolerate_errors);
  Handle<Packets>& handle = packets_in(packets, kWhatPackets);
  SampledVideo sampled;
  std::exception_ptr failure;
  {
    const GilReleased released;
    const auto guard = handle.own(kWhatPackets);
    codec_of(*guard);
    try {
      sampled = sample_video(*guard, indices, by_decoding ? SampleBy::kDecoding : SampleBy::kPackets, filter, config);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure == nullptr && !sampled.is_complete) {
    return by_decoding ? nb::object(nb::int_(sampled.num_pictures)) : nb::object(nb::none());
  }
  {
    const GilReleased released;
    handle.take(kWhatPackets);
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  nb::list result;
  for (Frames& picture : sampled.pictures) {
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
  nb::class_<PictureTimes>(module, "PictureTimes", nb::is_final(), "When the pictures of packets are on screen.")
      .def("__len__", [](const PictureTimes& self) { return self.starts.size(); })
      .def_prop_ro(
          "extent",
          [](const PictureTimes& self) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
            if (self.starts.empty()) {
              return std::nullopt;
            }
            return std::pair(*std::ranges::min_element(self.starts), self.end);
          },
          "The first start and the end of the last picture in ticks; ``None`` without pictures.")
      .def("indices_at", &indices_at, "ticks"_a,
           "Index of the picture on screen at each tick; ``None`` before the first and after the end of the last.");
  module.def("picture_times", &find_times, "packets"_a, nb::kw_only(), "by_decoding"_a, "decoder"_a.none(), "options"_a,
             "tolerate_errors"_a,
             nb::sig("def picture_times(packets: VideoPackets, *, by_decoding: bool, decoder: str | None, "
                     "options: collections.abc.Mapping[str, str], tolerate_errors: bool) -> PictureTimes | None"),
             kTimesDoc);
  module.def("sample_video", &sample, "packets"_a, "indices"_a, nb::kw_only(), "by_decoding"_a, "filter_desc"_a.none(),
             "decoder"_a.none(), "options"_a, "tolerate_errors"_a,
             nb::sig("def sample_video(packets: VideoPackets, indices: collections.abc.Sequence[int], *, "
                     "by_decoding: bool, filter_desc: str | None, decoder: str | None, "
                     "options: collections.abc.Mapping[str, str], tolerate_errors: bool) "
                     "-> list[ImageFrames] | int | None"),
             kSampleDoc);
  define<MediaType::kAudio>(module, "Audio");
  define<MediaType::kVideo>(module, "Video")
      .def("set_buffer_size", &set_buffer_size, "buffer_size"_a, kBufferDoc);
}

}  // namespace spdl::bind
