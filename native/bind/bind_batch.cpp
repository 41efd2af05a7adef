#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "bind/batch_call.h"
#include "bind/bind_transform.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/interrupt.h"
#include "bind/memory.h"
#include "bind/registration.h"
#include "bind/sources.h"
#include "jpeg/load.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kNewDoc = R"(A batch with room for ``count`` images of that transform, uninitialized.

Its ``origins`` assume one source per slot, in order.

Args:
    storage: Writable memory for the array, or None for memory of its own.)";

constexpr const char* kLoadDoc = R"(Load pictures into slots of a batch: JPEG with libjpeg-turbo, other formats with FFmpeg.

Args:
    buffer: From ``new_batch``.
    slots: The slot of each source's image, without duplicates. None: the first slots, in order.
    sources: The pictures: a path each, or encoded data as a contiguous buffer of bytes.
    labels: The ``source`` attribute of each picture's ``LoadFailure``.
    first_index: The ``index`` attribute of a failure of the first source.
    seeds: The 64-bit seed of each source's random choices, or None for zeros.
    replay: The plan of each source, as ``Transform.plan`` returns it, used instead of a random one; or None.
    max_pixels: The largest number of pixels in a picture.
    num_threads: The number of threads, including the caller's; 0 means the caller's alone.
    fallback_loader: ``_media.fallback_loader()``, the loader for other formats; None; or why there is none, as text, which is
        then the reason of each failure.

Returns:
    The failures. None if a source needs the other loader and ``fallback_loader`` is None.

Releases the GIL; thread-safe for different slots.)";

constexpr const char* kLoadJpegDoc = R"(Load one JPEG at full size, as RGB.

Args:
    source: A path, or encoded data as a contiguous buffer of bytes.
    name: The name of the source in messages, or None for its path or address.
    max_pixels: The largest number of pixels that it may have.
    orient: Whether to apply the EXIF orientation.

Returns:
    The image; None for a source that is not a JPEG, a JPEG that libjpeg-turbo does not decode, and a URL.

Releases the GIL; thread-safe.)";

constexpr const char* kKeepDoc = R"(Compact the batch: keep only the images in these slots.

Args:
    slots: The slots to keep, in ascending order.)";

Fallback parse_fallback(nb::handle fallback_loader) {
  Fallback fallback;
  if (nb::isinstance<nb::str>(fallback_loader)) {
    fallback.unavailable_because = nb::cast<std::string>(fallback_loader);
  } else if (!fallback_loader.is_none()) {
    fallback.loader =
        static_cast<const FallbackLoader*>(PyCapsule_GetPointer(fallback_loader.ptr(), kFallbackLoaderCapsule));
    if (fallback.loader == nullptr) {
      throw nb::python_error();
    }
  }
  return fallback;
}

std::vector<std::uint64_t> parse_seeds(nb::handle seeds) {
  return seeds.is_none() ? std::vector<std::uint64_t>() : nb::cast<std::vector<std::uint64_t>>(seeds);
}

std::vector<Plan> parse_replay(nb::handle replay, const Transform& transform) {
  std::vector<Plan> plans;
  if (!replay.is_none()) {
    for (const nb::handle plan : replay) {
      plans.push_back(parse_plan(plan, transform));
    }
  }
  return plans;
}

std::vector<Py_ssize_t> parse_slots(nb::handle slots, std::size_t count) {
  if (!slots.is_none()) {
    return nb::cast<std::vector<Py_ssize_t>>(slots);
  }
  std::vector<Py_ssize_t> all(count);
  std::iota(all.begin(), all.end(), Py_ssize_t{0});
  return all;
}

void check_slots(const CpuBuffer& batch, const std::vector<Py_ssize_t>& slots) {
  for (const Py_ssize_t slot : slots) {
    if (slot < 0 || slot >= batch.shape()[0]) {
      throw nb::index_error(("the batch has no slot " + std::to_string(slot)).c_str());
    }
  }
}

nb::tuple first_numbers(Py_ssize_t count) {
  auto numbers = nb::steal<nb::tuple>(PyTuple_New(count));
  if (!numbers.is_valid()) {
    throw nb::python_error();
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const number = PyLong_FromSsize_t(i);
    if (number == nullptr) {
      throw nb::python_error();
    }
    PyTuple_SetItem(numbers.ptr(), i, number);  // takes over the reference
  }
  return numbers;
}

constexpr const char* kSchemeEnd = "://";

// Whether load_slots takes a source as it is: data in memory, or a path that cannot be a URL.
bool is_plain(nb::handle source) {
  PyTypeObject* const type = Py_TYPE(source.ptr());
  if (type != &PyUnicode_Type) {
    return type == &PyBytes_Type || type == &PyByteArray_Type || type == &PyMemoryView_Type;
  }
  const auto path = plain_path(source);
  return path && path->find(kSchemeEnd) == std::string_view::npos;
}

bool are_plain(const nb::list& sources) {
  return std::all_of(sources.begin(), sources.end(), &is_plain);
}

nb::object new_batch(const Transform& transform, Py_ssize_t count, const nb::object& storage) {
  const auto channels = static_cast<Py_ssize_t>(num_channels(transform.color));
  const Py_ssize_t height = transform.height;
  const Py_ssize_t width = transform.width;
  CpuBuffer::Shape shape{count, height, width, channels};
  if (transform.layout == Layout::kNchw) {
    shape = {count, channels, height, width};
  }
  const nb::object batch = make_buffer(std::move(shape), transform.element, storage);
  buffer_in(batch).change_plans([&](CpuBuffer::Plans& plans) {
    plans = {std::vector<std::optional<Plan>>(static_cast<std::size_t>(count)), transform.height, transform.width};
  });
  buffer_in(batch).origins = first_numbers(count);
  return batch;
}

nb::object load(const nb::object& buffer, const nb::object& its_slots, const nb::list& sources, const nb::list& labels,
                std::size_t first_index, const Transform& transform, const nb::object& seeds, const nb::object& replay,
                std::int64_t max_pixels, int num_threads, const nb::object& fallback_loader) {
  CpuBuffer& batch = buffer_in(buffer);
  const std::vector<Py_ssize_t> slots = parse_slots(its_slots, sources.size());
  check_slots(batch, slots);
  const Inputs inputs = collect_inputs(sources);
  const std::vector<std::uint64_t> all_seeds = parse_seeds(seeds);
  const std::vector<Plan> plans = parse_replay(replay, transform);
  const std::size_t count = inputs.sources.size();
  if (slots.size() != count || labels.size() != count || (!seeds.is_none() && all_seeds.size() != count) ||
      (!replay.is_none() && plans.size() != count)) {
    throw nb::value_error("slots, sources, labels, seeds and plans must have the same length");
  }
  if (count > 0 && bytes_per_item(batch) != transform.bytes_per_image()) {
    throw nb::value_error("the batch was made for a different transform");
  }
  std::vector<std::uint8_t*> places;
  places.reserve(count);
  for (const Py_ssize_t slot : slots) {
    places.push_back(batch.data() + static_cast<std::size_t>(slot) * transform.bytes_per_image());
  }
  // A batch of large pictures takes seconds: check for Ctrl-C in between.
  SignalCheck is_interrupted;
  const Job job{inputs.sources, places, transform, all_seeds, plans, parse_fallback(fallback_loader),
                max_pixels,     num_threads, std::ref(is_interrupted)};
  std::optional<std::vector<Outcome>> loaded;
  {
    const GilReleased released;
    loaded = load_slots(job);
  }
  is_interrupted.throw_if_raised();
  if (!loaded) {
    return nb::none();
  }
  nb::list failures;
  for (std::size_t i = 0; i < count; ++i) {
    const Outcome& outcome = (*loaded)[i];
    if (outcome.error) {
      const nb::object error = make_exception(*outcome.error, name_of(inputs.sources[i], nb::none()));
      failures.append(make_load_failure(first_index + i, labels[i], error));
    }
  }
  batch.change_plans([&](CpuBuffer::Plans& plans) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!(*loaded)[i].error) {
        plans.of_images.at(static_cast<std::size_t>(slots[i])) = (*loaded)[i].plan;
      }
    }
    plans.canvas_height = transform.height;
    plans.canvas_width = transform.width;
  });
  return nb::tuple(failures);
}

nb::object load_jpeg(const nb::object& source, const nb::object& name, std::int64_t max_pixels, bool orient) {
  const HeldSource held = hold_source(source, "a source in memory");
  const std::string what = name_of(held.source, name);
  std::optional<WholeJpeg> whole;
  try {
    const Interruptible interruptible;
    const GilReleased released;
    whole = load_whole_jpeg(held.source, orient, max_pixels);
  } catch (Error& error) {
    error.source = what;
    throw;
  }
  if (!whole) {
    return nb::none();
  }
  return make_buffer({whole->height, whole->width, 3}, kUint8, std::move(whole->pixels));
}

void keep(const nb::object& buffer, const std::vector<Py_ssize_t>& slots) {
  CpuBuffer& batch = buffer_in(buffer);
  check_slots(batch, slots);
  const std::size_t size = bytes_per_item(batch);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (static_cast<std::size_t>(slots[i]) < i || (i > 0 && slots[i] <= slots[i - 1])) {
      throw nb::value_error("slots must be in ascending order");
    }
  }
  batch.change_plans([&](CpuBuffer::Plans& plans) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto from = static_cast<std::size_t>(slots[i]);
      if (from != i) {
        std::memcpy(batch.data() + i * size, batch.data() + from * size, size);
        if (!plans.of_images.empty()) {  // sounds have none
          plans.of_images.at(i) = plans.of_images.at(from);
        }
      }
    }
  });
  batch.keep_images(static_cast<Py_ssize_t>(slots.size()));
}

void clear(const nb::object& buffer, const std::vector<Py_ssize_t>& slots) {
  CpuBuffer& batch = buffer_in(buffer);
  check_slots(batch, slots);
  const std::size_t size = bytes_per_item(batch);
  batch.change_plans([&](CpuBuffer::Plans& plans) {
    for (const Py_ssize_t slot : slots) {
      std::memset(batch.data() + static_cast<std::size_t>(slot) * size, 0, size);
      if (!plans.of_images.empty()) {
        plans.of_images.at(static_cast<std::size_t>(slot)).reset();
      }
    }
  });
}

}  // namespace

void register_batch(nb::module_& module) {
  module.def("new_batch", &new_batch, "transform"_a, "count"_a, "storage"_a.none(),
             nb::sig("def new_batch(transform: Transform, count: int, "
                     "storage: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any] | None) -> CPUBuffer"),
             kNewDoc);
  module.def("load_slots", &load, "buffer"_a, "slots"_a.none(), "sources"_a, "labels"_a, nb::kw_only(), "first_index"_a,
             "transform"_a, "seeds"_a.none(), "replay"_a.none(), "max_pixels"_a, "num_threads"_a, "fallback_loader"_a.none(),
             nb::sig("def load_slots(buffer: CPUBuffer, slots: list[int] | None, "
                     "sources: list[str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8]], "
                     "labels: list[typing.Any], *, first_index: int, transform: Transform, seeds: list[int] | None, "
                     "replay: list[tuple[typing.Any, ...]] | None, max_pixels: int, num_threads: int, "
                     "fallback_loader: object | str | None) -> tuple[spdl.io._types.LoadFailure, ...] | None"),
             kLoadDoc);
  module.def("are_plain", &are_plain, "sources"_a, nb::sig("def are_plain(sources: list[typing.Any]) -> bool"),
             "Whether ``load_slots`` takes all sources as they are: data in memory, and paths that cannot be URLs.");
  module.def(
      "is_url",
      [](const std::string& path) {
        std::error_code ignored;
        return looks_like_url(path) && !std::filesystem::exists(path, ignored);
      },
      "path"_a, "Whether the text is a URL that FFmpeg can fetch, not the path of a file.");
  module.def("load_jpeg", &load_jpeg, "source"_a, nb::kw_only(), "name"_a.none(), "max_pixels"_a, "orient"_a,
             nb::sig("def load_jpeg(source: str | typing_extensions.Buffer | numpy.typing.NDArray[numpy.uint8], *, "
                     "name: str | None, max_pixels: int, orient: bool) -> CPUBuffer | None"),
             kLoadJpegDoc);
  module.def("keep_slots", &keep, "buffer"_a, "slots"_a,
             nb::sig("def keep_slots(buffer: CPUBuffer, slots: list[int]) -> None"), kKeepDoc);
  module.def("clear_slots", &clear, "buffer"_a, "slots"_a,
             nb::sig("def clear_slots(buffer: CPUBuffer, slots: list[int]) -> None"),
             "Fill these images with zero bytes and clear what is recorded of them.");
  module.def(
      "set_failures", [](const nb::object& buffer, const nb::tuple& failures) { buffer_in(buffer).failures = failures; },
      "buffer"_a, "failures"_a,
      nb::sig("def set_failures(buffer: CPUBuffer, failures: tuple[spdl.io._types.LoadFailure, ...]) -> None"),
      "Set ``failures`` of a batch that was assembled elsewhere.");
}

}  // namespace spdl::bind
