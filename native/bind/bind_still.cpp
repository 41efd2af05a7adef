#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/names.h"
#include "base/own_call.h"
#include "bind/errors.h"
#include "bind/excerpts.h"
#include "bind/fields.h"
#include "bind/gil.h"
#include "bind/interrupt.h"
#include "bind/memory.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "bind/sources.h"
#include "image/batch.h"
#include "media/picture.h"
#include "media/picture_layout.h"
#include "media/still.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kLoadDoc = R"(Load pictures, each through the same filter.

Args:
    sources: The pictures: a path each, or encoded data as a contiguous buffer of bytes.
    name: The name of the sources in messages, or None for their paths or addresses.
    filter: The description of a filter with one input and one output, or None.
    demux: The format, its options, the buffer size, whether errors are tolerated, protocols, timeout; or None, with
        ``decode`` None too, to load still images, without a demuxer if the format needs none.
    decode: The decoder, its options, whether errors are tolerated; or None.
    max_pixels: The largest number of pixels that a picture may have.
    orient: Whether to apply the EXIF orientation before the filter.
    num_threads: The number of threads, including the caller's; 0 means the caller's alone.

Returns:
    For each source its frames, or the exception with which loading it failed.

Releases the GIL; thread-safe.)";

nb::list load_pictures(const nb::list& sources, const nb::object& name, std::optional<std::string> filter,
                       const std::optional<DemuxFields>& demux, const std::optional<DecodeFields>& decode,
                       std::int64_t max_pixels, bool orient, int num_threads) {
  PictureOptions options;
  options.max_pixels = max_pixels;
  options.filter = std::move(filter);
  options.orient = orient;
  if (demux) {
    options.demux = demux_config_of(demux);
  }
  if (decode) {
    options.decode = decode_config_of(decode);
  }
  std::vector<HeldSource> held;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string what = sources.size() == 1 ? "a source in memory" : "source " + std::to_string(i);
    held.push_back(hold_source(sources[i], what.c_str()));
    names.push_back(name_of(held.back().source, name));
  }
  std::vector<std::optional<Frames>> loaded(held.size());
  const auto load = [&](std::size_t i) {
    const OwnCall call;
    loaded[i] = load_picture(held[i].source, names[i], options);
    return true;
  };
  const auto size_of = [&](std::size_t i) { return encoded_size(held[i].source); };
  const ItemErrors errors = work_without_gil(held.size(), num_threads, load, size_of);
  nb::list results;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (const auto& error = errors[i]) {
      results.append(make_exception(*error, error->source.empty() ? names[i] : error->source));
    } else {
      results.append(wrap(*std::move(loaded[i])));
    }
  }
  return results;
}

nb::object read(const std::string& url) {
  Buffer memory;
  std::size_t size = 0;
  try {
    const Interruptible interruptible;
    const GilReleased released;
    size = read_url(url, memory, std::nullopt).size();
  } catch (Error& error) {
    error.source = url;
    throw;
  }
  return make_buffer({static_cast<Py_ssize_t>(size)}, kUint8, std::move(memory));
}

void check_pix_fmt(const std::string& pix_fmt, int width, int height) {
  picture_layout(av::parse_pixel_format(pix_fmt, ErrorKind::kUnsupportedFormat, "load a batch"), width, height);
}

}  // namespace

void register_still(nb::module_& module) {
  module.def(
      "fallback_loader", [] { return nb::capsule(&fallback_loader(), kFallbackLoaderCapsule); },
      nb::sig("def fallback_loader() -> object"), "The loader of images that are not JPEG, for ``_core.load_slots``.");
  module.def("load_pictures", &load_pictures, "sources"_a, nb::kw_only(), "name"_a.none(), "filter"_a.none(),
             "demux"_a.none(), "decode"_a.none(), "max_pixels"_a, "orient"_a, "num_threads"_a,
             nb::sig("def load_pictures(sources: list[str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8]], "
                     "*, name: str | None, filter: str | None, "
                     "demux: " SPDL_DEMUX_FIELDS ", decode: " SPDL_DECODE_FIELDS ", max_pixels: int, orient: bool, "
                     "num_threads: int) "
                     "-> list[ImageFrames | spdl.io._errors.MediaError]"),
             kLoadDoc);
  module.def("read_url", &read, "url"_a, nb::sig("def read_url(url: str) -> spdl.io.lib._core.CPUBuffer"),
             "Read the whole resource at a URL, as bytes. Releases the GIL.");
  module.def("check_pix_fmt", &check_pix_fmt, "pix_fmt"_a, "width"_a, "height"_a,
             "Raise UnsupportedFormatError if pictures of that format and size have no array layout.");
}

}  // namespace spdl::bind
