#include "bind/bind_jpeg.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/errors.h"
#include "bind/memory.h"
#include "bind/sources.h"
#include "image/draw.h"
#include "jpeg/decoder.h"
#include "jpeg/load.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kLoadDoc = R"(Load pictures, each fitted and centred, into one array: JPEG here, others by the general way.

Args:
    sources: For each picture a path, or encoded data as a contiguous buffer of bytes.
    labels: For each picture what its failure is to carry as ``source``.
    storage: Writable memory for the array, or None for memory of its own.
    general_way: ``_media.general_way()``, or None; or why there is none, which is the reason of failures then.

Returns:
    ``(num_loaded, height, width, channels)``, in the order of ``sources``; ``failures`` holds the others. None if a
    source needs the general way and ``general_way`` is None.

Releases the GIL; safe to call from several threads.)";

constexpr const char* kDecodeDoc = R"(Decode a JPEG to planes of its full size, drop them, and return their sizes.

It is the part of loading that libjpeg-turbo alone does: the yardstick of benchmarks. Releases the GIL.)";

PixelFormat parse_format(const std::string& name) {
  if (name == "rgb24") {
    return PixelFormat::kRgb24;
  }
  if (name == "bgr24") {
    return PixelFormat::kBgr24;
  }
  if (name == "gray") {
    return PixelFormat::kGray;
  }
  throw nb::value_error(("pix_fmt must be 'rgb24', 'bgr24' or 'gray', got '" + name + "'").c_str());
}

// Sources as native code takes them, with what keeps their memory in place.
struct Inputs {
  std::vector<ImageSource> sources;
  std::vector<Export> exports;
};

Inputs collect(const nb::list& sources) {
  Inputs inputs;
  inputs.sources.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    HeldSource held = hold_source(sources[i], ("source " + std::to_string(i)).c_str());
    inputs.sources.push_back(std::move(held.source));
    if (held.held) {
      inputs.exports.push_back(*std::move(held.held));
    }
  }
  return inputs;
}

WayOut parse_way(nb::handle general_way) {
  WayOut way_out;
  if (nb::isinstance<nb::str>(general_way)) {
    way_out.why_none = nb::cast<std::string>(general_way);
  } else if (!general_way.is_none()) {
    way_out.way = static_cast<const GeneralWay*>(PyCapsule_GetPointer(general_way.ptr(), kGeneralWayCapsule));
    if (way_out.way == nullptr) {
      throw nb::python_error();
    }
  }
  return way_out;
}

nb::object load(const nb::list& sources, const nb::list& labels, int width, int height, const std::string& pix_fmt,
                const nb::object& storage, bool orient, const nb::object& general_way) {
  BatchOptions options{width, height, parse_format(pix_fmt), orient};
  if (width < 1 || height < 1) {
    throw nb::value_error(
        ("width and height must be >= 1, got " + std::to_string(width) + " and " + std::to_string(height)).c_str());
  }
  if (labels.size() != sources.size()) {
    throw nb::value_error("labels and sources must be as many");
  }
  const Inputs inputs = collect(sources);
  const WayOut way_out = parse_way(general_way);
  const nb::object result = make_buffer({static_cast<Py_ssize_t>(inputs.sources.size()), height, width,
                                         static_cast<Py_ssize_t>(bytes_per_pixel(options.format))},
                                        kUint8, storage);
  CpuBuffer& buffer = buffer_in(result);

  std::optional<std::vector<std::optional<Error>>> loaded;
  std::size_t num_loaded = 0;
  {
    const nb::gil_scoped_release released;
    loaded = load_batch(inputs.sources, options, way_out, buffer.data());
    num_loaded = loaded ? close_gaps(*loaded, options.bytes_per_image(), buffer.data()) : 0;
  }
  if (!loaded) {
    return nb::none();
  }
  const auto& outcomes = *loaded;
  buffer.keep_images(static_cast<Py_ssize_t>(num_loaded));
  if (num_loaded < outcomes.size()) {
    nb::list failures;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i]) {
        const nb::object error = make_exception(*outcomes[i], name_of(inputs.sources[i], nb::none()));
        failures.append(make_load_failure(i, labels[i], error));
      }
    }
    buffer.failures = nb::tuple(failures);
  }
  return result;
}

nb::list decode_planes(const nb::object& data) {
  const Export held(data, false, "data");
  std::vector<std::pair<int, int>> sizes;
  {
    const nb::gil_scoped_release released;
    thread_local JpegDecoder decoder;
    const JpegHeader header = decoder.open({held.data(), held.size()}, false);
    const Picture picture = decoder.decode(header.width, header.height, false);
    for (std::size_t i = 0; i < static_cast<std::size_t>(picture.num_components); ++i) {
      sizes.emplace_back(picture.components[i].width, picture.components[i].height);
    }
  }
  nb::list result;
  for (const auto& [width, height] : sizes) {
    result.append(nb::make_tuple(width, height));
  }
  return result;
}

}  // namespace

void register_jpeg(nb::module_& module) {
  module.def("load_batch", &load, "sources"_a, "labels"_a, nb::kw_only(), "width"_a, "height"_a, "pix_fmt"_a,
             "storage"_a.none(), "orient"_a, "general_way"_a.none(),
             nb::sig("def load_batch(sources: list[str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8]], "
                     "labels: list[typing.Any], *, width: int, height: int, pix_fmt: str, "
                     "storage: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any] | None, "
                     "orient: bool, general_way: object | str | None) -> CPUBuffer | None"),
             kLoadDoc);
  module.def(
      "set_failures", [](const nb::object& buffer, const nb::tuple& failures) { buffer_in(buffer).failures = failures; },
      "buffer"_a, "failures"_a,
      nb::sig("def set_failures(buffer: CPUBuffer, failures: tuple[spdl.io._types.LoadFailure, ...]) -> None"),
      "What a batch that was put together elsewhere is to have as ``failures``.");
  module.def("decode_planes", &decode_planes, "data"_a,
             nb::sig("def decode_planes(data: typing_extensions.Buffer) -> list[tuple[int, int]]"), kDecodeDoc);
  module.def("libjpeg_turbo_version", &libjpeg_turbo_version, "Version of the libjpeg-turbo headers of this build.");
  module.def("libjpeg_turbo_path", &libjpeg_turbo_path, "File that libjpeg-turbo was loaded from.");
}

}  // namespace spdl::bind
