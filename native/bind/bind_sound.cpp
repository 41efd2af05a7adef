#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/own_call.h"
#include "base/splitmix.h"
#include "bind/excerpts.h"
#include "bind/fields.h"
#include "bind/gil.h"
#include "bind/interrupt.h"
#include "bind/media_sources.h"
#include "bind/registration.h"
#include "media/sound.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kLoadDoc = R"(Load a window of sound at any sample rate. See ``spdl.io.load_audio``.

Args:
    name: The name of the source in messages, or None for its path or address.
    window: The start and end in seconds, or None for everything.
    num_samples: The number of samples of the result, cut or padded; or None.
    sample_rate, num_channels: Of the result; 0 keeps those of the source.
    dtype: float32, float64, int16 or int32.
    stream: The stream, or None for the best one.
    by_stream_clock: Whether the window is by the container's clock, and not from the first sample on.
    demux, decode: The fields of the configurations, or None.

Returns:
    ``(channels, samples)``.

Releases the GIL; thread-safe.)";

constexpr const char* kBatchDoc = R"(Load sounds into slots of a batch ``(items, channels, samples)`` of ``dtype``.

Args:
    buffer: The batch.
    slots: The slot of each source's sound, without duplicates.
    sources: The sounds: a path each, or encoded data as a contiguous buffer of bytes.
    labels: The ``source`` attribute of each source's ``LoadFailure``.
    first_index: The ``index`` attribute of a failure of the first source.
    starts: The start of each in seconds; or None, with ``seeds``, for a random one.
    seeds: The 64-bit seed of each.
    sample_rate: The sample rate of the batch.
    by_stream_clock: Whether starts are by the container's clock, and not from the first sample on.
    num_threads: The number of threads, including the caller's; 0 means the caller's alone.

Returns:
    The failures; and for each source the start in seconds and the number of samples that are not padding, or None.

Releases the GIL; thread-safe for different slots.)";

struct SampleType {
  ElementType element;
  AVSampleFormat format;
};

SampleType parse_dtype(const std::string& dtype) {
  if (dtype == "float32") {
    return {kFloat32, AV_SAMPLE_FMT_FLTP};
  }
  if (dtype == "float64") {
    return {kFloat64, AV_SAMPLE_FMT_DBLP};
  }
  if (dtype == "int16") {
    return {kInt16, AV_SAMPLE_FMT_S16P};
  }
  if (dtype == "int32") {
    return {kInt32, AV_SAMPLE_FMT_S32P};
  }
  throw nb::value_error(("dtype must be float32, float64, int16 or int32, got '" + dtype + "'").c_str());
}

void copy_rows(const Sound& sound, std::size_t row_bytes, std::uint8_t* out) {
  for (int i = 0; i < sound.num_channels; ++i) {
    std::memcpy(out + static_cast<std::size_t>(i) * row_bytes,
                sound.memory.data() + static_cast<std::size_t>(i) * sound.stride, row_bytes);
  }
}

nb::object load(nb::handle source, nb::handle name, std::optional<std::pair<double, double>> window,
                std::optional<std::int64_t> num_samples, int sample_rate, int num_channels, const std::string& dtype,
                std::optional<int> stream, bool by_stream_clock, const std::optional<DemuxFields>& demux,
                const std::optional<DecodeFields>& decode) {
  const SampleType type = parse_dtype(dtype);
  HeldMedia held = hold_media(source, name, "a source in memory");
  DemuxConfig config = demux_config_of(demux);
  SoundRequest request;
  if (window) {
    request.window = TimeWindow{window->first, window->second};
  }
  request.num_samples = num_samples;
  request.sample_rate = sample_rate;
  request.num_channels = num_channels;
  request.format = type.format;
  request.stream = stream;
  request.clock = by_stream_clock ? SoundClock::kStream : SoundClock::kFirstSample;
  request.decode = decode_config_of(decode);
  Sound sound;
  const auto size = static_cast<std::size_t>(type.element.size);
  {
    const Interruptible interruptible;
    const GilReleased released;
    Demuxer demuxer(std::move(held.source), held.name, std::move(config));
    sound = load_sound(demuxer, request);
    const std::size_t row = static_cast<std::size_t>(sound.num_samples) * size;
    if (sound.stride != row) {
      // Rows have spare room behind them. Moving in place is safe, because each row moves towards the beginning.
      for (int i = 1; i < sound.num_channels; ++i) {
        std::memmove(sound.memory.data() + static_cast<std::size_t>(i) * row,
                     sound.memory.data() + static_cast<std::size_t>(i) * sound.stride, row);
      }
    }
  }
  return make_buffer({sound.num_channels, static_cast<Py_ssize_t>(sound.num_samples)}, type.element,
                     std::move(sound.memory));
}

nb::tuple load_batch(const nb::object& buffer, const std::vector<Py_ssize_t>& slots, const nb::list& sources,
                     const nb::list& labels, std::size_t first_index,
                     const std::optional<std::vector<double>>& starts,
                     const std::optional<std::vector<std::uint64_t>>& seeds, int sample_rate, const std::string& dtype,
                     bool by_stream_clock, const std::optional<DemuxFields>& demux, const std::optional<DecodeFields>& decode,
                     int num_threads) {
  const SampleType type = parse_dtype(dtype);
  CpuBuffer& batch = buffer_in(buffer);
  const MediaInputs inputs = collect_media(sources);
  const std::size_t count = inputs.sources.size();
  if (slots.size() != count || labels.size() != count || starts.has_value() == seeds.has_value() ||
      (starts && starts->size() != count) || (seeds && seeds->size() != count)) {
    throw nb::value_error("slots, sources, labels, and either starts or seeds must have the same length");
  }
  if (batch.shape().size() != 3 || !(batch.type() == type.element)) {
    throw nb::value_error("the batch must have the shape (items, channels, samples) and that dtype");
  }
  const std::vector<std::uint8_t*> places = places_of(batch, slots);
  const DemuxConfig demux_config = demux_config_of(demux);
  SoundRequest common;
  common.num_samples = batch.shape()[2];
  common.num_channels = static_cast<int>(batch.shape()[1]);
  common.sample_rate = sample_rate;
  common.format = type.format;
  common.clock = by_stream_clock ? SoundClock::kStream : SoundClock::kFirstSample;
  common.decode = decode_config_of(decode);
  const std::size_t row_bytes = static_cast<std::size_t>(batch.shape()[2]) * static_cast<std::size_t>(type.element.size);
  std::vector<std::pair<double, std::int64_t>> parts(count);
  const auto work = [&](std::size_t i) {
    const OwnCall call;
    SoundRequest request = common;
    if (starts) {
      request.start = (*starts)[i];
    } else {
      request.share = start_share((*seeds)[i]);
    }
    Demuxer demuxer(inputs.sources[i], inputs.names[i], demux_config);
    const Sound sound = load_sound(demuxer, request);
    copy_rows(sound, row_bytes, places[i]);
    parts[i] = {sound.start, sound.silence_before + sound.num_valid};
    return true;
  };
  const ItemErrors errors = work_without_gil(count, num_threads, work);
  return outcome_of(errors, inputs.names, labels, first_index, parts);
}

}  // namespace

void register_sound(nb::module_& module) {
  module.def(
      "new_batch",
      [](const std::vector<Py_ssize_t>& shape, const std::string& dtype, const nb::object& storage) {
        return make_buffer(shape, parse_dtype(dtype).element, storage);
      },
      "shape"_a, "dtype"_a, "storage"_a.none(),
      nb::sig("def new_batch(shape: tuple[int, ...], dtype: str, "
              "storage: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any] | None) "
              "-> spdl.io.lib._core.CPUBuffer"),
      "An array of samples, uninitialized. ``storage``: Writable memory for it, or None for memory of its own.");
  module.def("load_sound", &load, "source"_a, nb::kw_only(), "name"_a.none(), "window"_a.none(), "num_samples"_a.none(),
             "sample_rate"_a, "num_channels"_a, "dtype"_a, "stream"_a.none(), "by_stream_clock"_a, "demux"_a.none(),
             "decode"_a.none(),
             nb::sig("def load_sound(source: str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8], *, "
                     "name: str | None, window: tuple[float, float] | None, num_samples: int | None, "
                     "sample_rate: int, num_channels: int, dtype: str, stream: int | None, by_stream_clock: bool, "
                     "demux: " SPDL_DEMUX_FIELDS ", decode: " SPDL_DECODE_FIELDS ") -> spdl.io.lib._core.CPUBuffer"),
             kLoadDoc);
  module.def("load_sounds", &load_batch, "buffer"_a, "slots"_a, "sources"_a, "labels"_a, nb::kw_only(), "first_index"_a,
             "starts"_a.none(), "seeds"_a.none(), "sample_rate"_a, "dtype"_a, "by_stream_clock"_a, "demux"_a.none(),
             "decode"_a.none(), "num_threads"_a,
             nb::sig("def load_sounds(buffer: spdl.io.lib._core.CPUBuffer, slots: list[int], "
                     "sources: list[str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8]], "
                     "labels: list[typing.Any], *, first_index: int, starts: list[float] | None, "
                     "seeds: list[int] | None, sample_rate: int, dtype: str, by_stream_clock: bool, "
                     "demux: " SPDL_DEMUX_FIELDS ", decode: " SPDL_DECODE_FIELDS ", num_threads: int) "
                     "-> tuple[tuple[spdl.io._types.LoadFailure, ...], list[tuple[float, int] | None]]"),
             kBatchDoc);
}

}  // namespace spdl::bind
