#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/own_call.h"
#include "bind/excerpts.h"
#include "bind/fields.h"
#include "bind/media_sources.h"
#include "bind/registration.h"
#include "media/clip.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kNewDoc = R"(A batch with room for ``count`` clips, uninitialized.

Args:
    transform: The transform of each picture.
    layout: ``"NTHWC"``, ``"NTCHW"`` or ``"NCTHW"``. The transform has the same layout without the time axis.
    storage: Writable memory for the array, or None for memory of its own.)";

constexpr const char* kLoadDoc = R"(Load clips into slots of a batch. See ``spdl.io.load_video_clips``.

Args:
    buffer: From ``new_clips``.
    slots: The slot of each source's clip, without duplicates.
    sources: The videos: a path each, or encoded data as a contiguous buffer of bytes.
    labels: The ``source`` attribute of each source's ``LoadFailure``.
    first_index: The ``index`` attribute of a failure of the first source.
    transform: The transform of each picture, with which the batch was made.
    stride: The number of pictures from one picture of a clip to the next.
    starts: The start of each in seconds; or ``"middle"`` or ``"random"``.
    seeds: The 64-bit seed of each source's random choices, or None for zeros.
    max_pixels: The largest number of pixels that a picture may have.
    num_threads: The number of threads, including the caller's; 0 means the caller's alone.

Returns:
    The failures; and for each source the start in seconds and the number of pictures that are not padding, or None.

Releases the GIL; thread-safe for different slots.)";

bool has_channels_first(const CpuBuffer& batch, const Transform& transform, std::int64_t num_frames) {
  const CpuBuffer::Shape& shape = batch.shape();
  const Py_ssize_t channels = num_channels(transform.color);
  const CpuBuffer::Shape frames_first =
      transform.layout == Layout::kNhwc
          ? CpuBuffer::Shape{shape[0], num_frames, transform.height, transform.width, channels}
          : CpuBuffer::Shape{shape[0], num_frames, channels, transform.height, transform.width};
  const CpuBuffer::Shape channels_first{shape[0], channels, num_frames, transform.height, transform.width};
  if (!(batch.type() == transform.element) || (shape != frames_first && shape != channels_first)) {
    throw nb::value_error("the batch was made for a different transform");
  }
  return transform.layout == Layout::kNchw && shape == channels_first;
}

nb::object new_clips(const Transform& transform, Py_ssize_t count, Py_ssize_t num_frames, const std::string& layout,
                     const nb::object& storage) {
  const auto channels = static_cast<Py_ssize_t>(num_channels(transform.color));
  const Py_ssize_t height = transform.height;
  const Py_ssize_t width = transform.width;
  CpuBuffer::Shape shape{count, num_frames, height, width, channels};
  if (layout == "NTCHW") {
    shape = {count, num_frames, channels, height, width};
  } else if (layout == "NCTHW") {
    shape = {count, channels, num_frames, height, width};
  } else if (layout != "NTHWC") {
    throw nb::value_error("layout must be NTHWC, NTCHW or NCTHW");
  }
  const nb::object batch = make_buffer(std::move(shape), transform.element, storage);
  buffer_in(batch).change_plans([&](CpuBuffer::Plans& plans) {
    plans = {std::vector<std::optional<Plan>>(static_cast<std::size_t>(count)), transform.height, transform.width};
  });
  return batch;
}

nb::tuple load_clips(const nb::object& buffer, const std::vector<Py_ssize_t>& slots, const nb::list& sources,
                     const nb::list& labels, std::size_t first_index, const Transform& transform,
                     std::int64_t num_frames, std::int64_t stride, bool is_channels_first, nb::handle starts,
                     const std::optional<std::vector<std::uint64_t>>& seeds, std::int64_t max_pixels,
                     std::optional<int> stream, const std::optional<DemuxFields>& demux,
                     const std::optional<DecodeFields>& decode, int num_threads) {
  CpuBuffer& batch = buffer_in(buffer);
  const MediaInputs inputs = collect_media(sources);
  const std::size_t count = inputs.sources.size();
  std::optional<std::vector<double>> times;
  ClipPlace place = ClipPlace::kTime;
  if (nb::isinstance<nb::str>(starts)) {
    const auto word = nb::cast<std::string>(starts);
    if (word != "random" && word != "middle") {
      throw nb::value_error("starts must be 'random', 'middle' or numbers");
    }
    place = word == "random" ? ClipPlace::kRandom : ClipPlace::kMiddle;
  } else {
    times = nb::cast<std::vector<double>>(starts);
  }
  if (slots.size() != count || labels.size() != count || (times && times->size() != count) ||
      (seeds && seeds->size() != count)) {
    throw nb::value_error("slots, sources, labels, starts and seeds must have the same length");
  }
  if (num_frames < 1 || stride < 1 || batch.shape().size() != 5) {
    throw nb::value_error("num_frames and stride must be >= 1, and the batch must have five axes");
  }
  if (is_channels_first && !has_channels_first(batch, transform, num_frames)) {
    throw nb::value_error("the batch has another layout");
  }
  has_channels_first(batch, transform, num_frames);
  const std::vector<std::uint8_t*> places = places_of(batch, slots);
  const DemuxConfig demux_config = demux_config_of(demux);
  const DecodeConfig decode_config = decode_config_of(decode);
  std::vector<Clip> clips(count);
  std::vector<std::pair<double, std::int64_t>> parts(count);
  const auto work = [&](std::size_t i) {
    const OwnCall call;
    const ClipRequest request{.transform = transform,
                              .num_frames = num_frames,
                              .stride = stride,
                              .place = place,
                              .time = times ? (*times)[i] : 0,
                              .seed = seeds ? (*seeds)[i] : 0,
                              .has_channels_first = is_channels_first,
                              .max_pixels = max_pixels,
                              .stream = stream,
                              .decode = decode_config};
    Demuxer demuxer(inputs.sources[i], inputs.names[i], demux_config);
    clips[i] = load_clip(demuxer, request, places[i]);
    parts[i] = {clips[i].start, clips[i].length};
    return true;
  };
  const ItemErrors errors = work_without_gil(count, num_threads, work);
  batch.change_plans([&](CpuBuffer::Plans& plans) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!errors[i]) {
        plans.of_images.at(static_cast<std::size_t>(slots[i])) = clips[i].plan;
      }
    }
  });
  return outcome_of(errors, inputs.names, labels, first_index, parts);
}

}  // namespace

void register_clip(nb::module_& module) {
  module.def("new_clips", &new_clips, "transform"_a, "count"_a, "num_frames"_a, "layout"_a, "storage"_a.none(),
             nb::sig("def new_clips(transform: spdl.io.lib._core.Transform, count: int, num_frames: int, layout: str, "
                     "storage: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any] | None) "
                     "-> spdl.io.lib._core.CPUBuffer"),
             kNewDoc);
  module.def("load_clips", &load_clips, "buffer"_a, "slots"_a, "sources"_a, "labels"_a, nb::kw_only(), "first_index"_a,
             "transform"_a, "num_frames"_a, "stride"_a, "is_channels_first"_a, "starts"_a, "seeds"_a.none(),
             "max_pixels"_a, "stream"_a.none(), "demux"_a.none(), "decode"_a.none(), "num_threads"_a,
             nb::sig("def load_clips(buffer: spdl.io.lib._core.CPUBuffer, slots: list[int], "
                     "sources: list[str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8]], "
                     "labels: list[typing.Any], *, first_index: int, transform: spdl.io.lib._core.Transform, "
                     "num_frames: int, stride: int, is_channels_first: bool, starts: list[float] | str, "
                     "seeds: list[int] | None, max_pixels: int, stream: int | None, demux: " SPDL_DEMUX_FIELDS ", "
                     "decode: " SPDL_DECODE_FIELDS ", num_threads: int) "
                     "-> tuple[tuple[spdl.io._types.LoadFailure, ...], list[tuple[float, int] | None]]"),
             kLoadDoc);
}

}  // namespace spdl::bind
