#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/objects.h"
#include "bind/registration.h"
#include "media/convert.h"
#include "media/reference_frames.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kConvertDoc = R"(Copy frames into one array.

Args:
    frames: Frames of one class; all are consumed.
    is_batch: Whether the array gets a leading axis for the frames; if not, there must be exactly one.
    storage: Writable memory for the array, or None for memory of its own.

Releases the GIL; thread-safe.)";

using FrameHandles = std::vector<Handle<Frames>*>;

FrameHandles collect(const nb::list& objects) {
  FrameHandles handles;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const nb::object object = objects[i];
    handles.push_back(&frames_in(object, objects.size() == 1 ? "frames" : ("frames[" + std::to_string(i) + "]").c_str()));
    const nb::handle first = objects[0].type();
    if (!object.type().is(first)) {
      const std::string message = "all frames of a batch must be of one type; the first are " +
                                  nb::cast<std::string>(first.attr("__name__")) + ", number " + std::to_string(i) +
                                  " are " + nb::cast<std::string>(object.type().attr("__name__"));
      throw nb::type_error(message.c_str());
    }
  }
  FrameHandles sorted = handles;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw Error(ErrorKind::kConsumed, "convert", "the same frames are in the list twice; use a clone()");
  }
  return handles;
}

std::string describe(const ArrayLayout& layout, const std::string& format) {
  std::string shape;
  for (const std::ptrdiff_t side : layout.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(side);
  }
  return format + " of shape (" + shape + ")";
}

// The layout of the frames, which must agree. Consumes nothing.
ArrayLayout common_layout(const FrameHandles& handles) {
  if (handles.empty()) {
    throw Error(ErrorKind::kConvert, "convert", "the list of frames is empty");
  }
  ArrayLayout common;
  std::string format;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const auto frames = handles[i]->read("frames");
    ArrayLayout layout = layout_of(*frames);
    std::string its_format = format_name_of(*frames);
    if (i == 0) {
      common = std::move(layout);
      format = std::move(its_format);
    } else if (layout != common || its_format != format) {
      throw Error(ErrorKind::kConvert, "convert",
                  "frames of a batch must agree in format, size and count; the first are " + describe(common, format) +
                      ", number " + std::to_string(i) + " are " + describe(layout, its_format))
          .in(frames->source);
    }
  }
  return common;
}

nb::object convert_frames(const nb::list& objects, bool is_batch, const nb::object& storage) {
  const FrameHandles handles = collect(objects);
  const ArrayLayout layout = common_layout(handles);
  CpuBuffer::Shape shape(layout.shape.begin(), layout.shape.end());
  if (is_batch) {
    shape.insert(shape.begin(), static_cast<Py_ssize_t>(handles.size()));
  }
  const nb::object result = make_buffer(std::move(shape), layout.type, storage);
  std::uint8_t* out = buffer_in(result).data();
  {
    const GilReleased released;
    for (Handle<Frames>* handle : handles) {
      // The frames are unchanged: frames never change, and if another thread has consumed them since, this throws.
      const Frames frames = handle->take("frames");
      copy_frames(frames, out);
      out += layout.num_bytes;
    }
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------- reference frames

void release_array(void* owner, std::uint8_t*) {
  drop_soon(std::unique_ptr<DeferredExport>(static_cast<DeferredExport*>(owner)));
}

constexpr const char* kReferencePicturesDoc = R"(Make frames of pictures whose planes are the array's memory.

Args:
    array: The C-contiguous array.
    element: The kind and size of its elements, as NumPy's ``dtype.kind`` and ``dtype.itemsize``.
    shape: The shape of the array.)";

// The array's memory as a reference for libav, and its shape.
class Referenced {
 public:
  Referenced(const nb::object& array, const std::pair<std::string, int>& element, const nb::tuple& sides) {
    for (const nb::handle side : sides) {
      shape_.push_back(nb::cast<std::ptrdiff_t>(side));
    }
    auto exported = std::make_unique<DeferredExport>(array, "array");
    view_ = {exported->memory.data(), shape_, {element.first.at(0), element.second}, exported->memory.size()};
    memory_ = make_reference(view_, release_array, exported.release());
  }

  const ArrayView& view() const noexcept { return view_; }
  const AVBufferRef& memory() const noexcept { return *memory_; }

 private:
  std::vector<std::ptrdiff_t> shape_;
  ArrayView view_;
  av::BufferRefPtr memory_;
};

nb::object create_reference_pictures(const nb::object& array, const std::pair<std::string, int>& element,
                                     const nb::tuple& shape, const std::string& pix_fmt,
                                     const std::pair<int, int>& frame_rate, std::int64_t pts) {
  const Referenced referenced(array, element, shape);
  return wrap(reference_pictures(referenced.view(), pix_fmt, {frame_rate.first, frame_rate.second}, pts,
                                 referenced.memory()));
}

nb::object create_reference_samples(const nb::object& array, const std::pair<std::string, int>& element,
                                    const nb::tuple& shape, const std::string& sample_fmt, int sample_rate,
                                    std::int64_t pts) {
  const Referenced referenced(array, element, shape);
  return wrap(reference_samples(referenced.view(), sample_fmt, sample_rate, pts, referenced.memory()));
}

}  // namespace

void register_convert(nb::module_& module) {
  module.def("convert_frames", &convert_frames, "frames"_a, nb::kw_only(), "is_batch"_a, "storage"_a.none(),
             nb::sig("def convert_frames(frames: list[AudioFrames] | list[VideoFrames] | list[ImageFrames], *, "
                     "is_batch: bool, storage: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any] | None) -> "
                     "spdl.io.lib._core.CPUBuffer"),
             kConvertDoc);
  module.def("create_reference_pictures", &create_reference_pictures, "array"_a, nb::kw_only(), "element"_a, "shape"_a,
             "pix_fmt"_a, "frame_rate"_a, "pts"_a,
             nb::sig("def create_reference_pictures(array: numpy.typing.NDArray[typing.Any], *, "
                     "element: tuple[str, int], shape: tuple[int, ...], pix_fmt: str, frame_rate: tuple[int, int], "
                     "pts: int) -> VideoFrames"),
             kReferencePicturesDoc);
  module.def("create_reference_samples", &create_reference_samples, "array"_a, nb::kw_only(), "element"_a, "shape"_a,
             "sample_fmt"_a, "sample_rate"_a, "pts"_a,
             nb::sig("def create_reference_samples(array: numpy.typing.NDArray[typing.Any], *, "
                     "element: tuple[str, int], shape: tuple[int, ...], sample_fmt: str, sample_rate: int, "
                     "pts: int) -> AudioFrames"),
             "Make frames of samples whose planes are the array's memory; arguments as for pictures.");
}

}  // namespace spdl::bind
