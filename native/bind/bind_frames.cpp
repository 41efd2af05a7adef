#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "av/names.h"
#include "bind/gil.h"
#include "bind/objects.h"
#include "bind/shared_bytes.h"
#include "bind/registration.h"
#include "media/serialize_frames.h"
#include "media/frames.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kWhat = "frames";

constexpr const char* kAudioDoc = R"(Decoded samples.

Converting, filtering and encoding consume the frames: using them again raises ``ConsumedError``. ``clone()`` shares
the data and is consumed on its own.)";

constexpr const char* kVideoDoc = R"(Decoded pictures, in display order.

``frames[i]`` is an ``ImageFrames``; ``frames[start:stop:step]`` and ``frames[[i, ...]]`` are ``VideoFrames`` (any
order, repeats allowed). All of them share the data.

Converting, filtering and encoding consume the frames: using them again raises ``ConsumedError``. Clones and slices
are consumed on their own.)";

constexpr const char* kImageDoc = R"(One decoded picture.

Converting, filtering and encoding consume it: using it again raises ``ConsumedError``. ``clone()`` shares the data
and is consumed on its own.)";

constexpr const char* kErrorsDoc =
    "Number of errors that the decoder skipped, if ``decode_config`` has ``tolerate_errors=True``.";

constexpr const char* kCloneDoc = "New frames that share the data and are consumed on their own.";

constexpr const char* kTransportDoc = R"(Like ``__reduce__``, but for transport to another process of the same program.

Returns a function and its arguments: ``pickle.PickleBuffer`` objects that refer to the planes, without a copy. The
frames are not consumed.

Raises:
    UnsupportedFormatError: The frames are in GPU memory.)";

// The first frame of a Frames, which tells the format of all. Without frames: an empty frame without a format.
const AVFrame& first_of(const Frames& frames) {
  static const AVFrame kNone = [] {
    AVFrame none{};
    none.format = -1;
    return none;
  }();
  return frames.frames.empty() ? kNone : *frames.frames.front();
}

double seconds_or_nan(const AVFrame& frame, AVRational time_base) {
  return seconds_of(frame, time_base).value_or(std::numeric_limits<double>::quiet_NaN());
}

// "0.000", or "[0.000, 1.960]" of the first and last frame.
std::string span_text(const Frames& frames) {
  char text[64] = "nan";
  if (!frames.frames.empty()) {
    std::snprintf(text, sizeof(text), "[%.3f, %.3f]", seconds_or_nan(*frames.frames.front(), frames.time_base),
                  seconds_or_nan(*frames.frames.back(), frames.time_base));
  }
  return text;
}

int num_planes(const Frames& frames) {
  const int count = av_pix_fmt_count_planes(static_cast<AVPixelFormat>(first_of(frames).format));
  return count > 0 ? count : 0;
}

std::string picture_text(const Frames& frames) {
  const AVFrame& first = first_of(frames);
  return "pixel_format=\"" + av::pixel_format_name(first.format) + "\", num_planes=" + std::to_string(num_planes(frames)) +
         ", width=" + std::to_string(first.width) + ", height=" + std::to_string(first.height);
}

std::string repr_audio(const AudioFrames& self) {
  const auto frames = self.read(kWhat);
  const AVFrame& first = first_of(*frames);
  return "AudioFrames<num_frames=" + std::to_string(frames->num_frames()) + ", sample_format=\"" +
         av::sample_format_name(first.format) + "\", sample_rate=" + std::to_string(first.sample_rate) +
         ", num_channels=" + std::to_string(first.ch_layout.nb_channels) + ", timestamp=" + span_text(*frames) + ">";
}

std::string repr_video(const VideoFrames& self) {
  const auto frames = self.read(kWhat);
  return "VideoFrames<num_frames=" + std::to_string(frames->num_frames()) + ", " + picture_text(*frames) +
         ", timestamp=" + span_text(*frames) + ">";
}

std::string repr_image(const ImageFrames& self) {
  const auto frames = self.read(kWhat);
  char time[32];
  std::snprintf(time, sizeof(time), "%.3f", seconds_or_nan(first_of(*frames), frames->time_base));
  return "ImageFrames<" + picture_text(*frames) + ", timestamp=" + time + ">";
}

template <class Self>
nb::object clone(const Self& self) {
  Frames copy;
  {
    const GilReleased released;
    copy = self.read(kWhat)->clone();
  }
  return wrap(std::move(copy));
}

template <class Self>
void refuse_to_pickle(const Self&, nb::object) {
  throw nb::type_error("cannot pickle frames: pickle their packets, or the array that convert_frames makes of them");
}

// For transport to another process of the same program. The frames are not consumed, as with a clone.
template <class Self>
nb::tuple reduce_transport(const Self& self) {
  Serialized serialized;
  {
    const auto frames = self.read(kWhat);
    const GilReleased released;
    serialized = serialize(*frames);
  }
  return nb::make_tuple(nb::module_::import_("spdl.io._restore").attr("restore_frames"),
                        as_pickle_buffers(std::move(serialized)));
}

nb::object restore_frames(nb::handle in_band_object, const nb::args& others) {
  const SharedBytes in_band = share(in_band_object, "data");
  const std::vector<SharedBytes> out_of_band = share_all(others, "data");
  Frames frames;
  {
    const GilReleased released;
    frames = deserialize_frames(in_band, out_of_band);
  }
  return wrap(std::move(frames));
}

// Negative positions count from the end. Raises IndexError.
std::size_t position_in(Py_ssize_t index, std::size_t count) {
  const auto size = static_cast<Py_ssize_t>(count);
  if (index < -size || index >= size) {
    throw nb::index_error(
        ("frame index must be in [" + std::to_string(-size) + ", " + std::to_string(size) + "), got " +
         std::to_string(index))
            .c_str());
  }
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

Py_ssize_t as_index(nb::handle object) {
  const Py_ssize_t index = PyNumber_AsSsize_t(object.ptr(), PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
  return index;
}

Frames image_at(const Frames& frames, std::size_t position) {
  Frames picture = frames.pick({position});
  picture.type = MediaType::kImage;
  return picture;
}

nb::object get_picture(const VideoFrames& self, const nb::object& key) {
  if (PyIndex_Check(key.ptr()) == 0) {
    throw nb::next_overload();
  }
  const nb::object number = nb::steal(PyNumber_Index(key.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();  // a NumPy array has the method but may not be an integer
    throw nb::next_overload();
  }
  const Py_ssize_t index = as_index(number);
  const auto frames = self.read(kWhat);
  return wrap(image_at(*frames, position_in(index, frames->frames.size())));
}

// Keys are parsed before the frames are locked: parsing may run user code.
nb::object get_pictures(const VideoFrames& self, const nb::object& key) {
  if (PySlice_Check(key.ptr()) != 0) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(key.ptr(), &start, &stop, &step) < 0) {
      throw nb::python_error();
    }
    const auto frames = self.read(kWhat);
    const Py_ssize_t count =
        PySlice_AdjustIndices(static_cast<Py_ssize_t>(frames->frames.size()), &start, &stop, step);
    std::vector<std::size_t> positions;
    for (Py_ssize_t i = 0; i < count; ++i) {
      positions.push_back(static_cast<std::size_t>(start + i * step));
    }
    return wrap(frames->pick(positions));
  }
  if (PySequence_Check(key.ptr()) == 0 || nb::isinstance<nb::str>(key)) {
    const auto name = nb::cast<nb::str>(key.type().attr("__name__"));
    throw nb::type_error((std::string("frames are indexed with an int, a slice or a sequence of ints, got ") + name.c_str()).c_str());
  }
  std::vector<Py_ssize_t> indices;
  for (const nb::handle each : key) {
    if (PyIndex_Check(each.ptr()) == 0) {
      const auto name = nb::cast<nb::str>(each.type().attr("__name__"));
      throw nb::type_error((std::string("frames are indexed with ints, got a sequence with ") + name.c_str()).c_str());
    }
    indices.push_back(as_index(each));
  }
  const auto frames = self.read(kWhat);
  std::vector<std::size_t> positions;
  for (const Py_ssize_t index : indices) {
    positions.push_back(position_in(index, frames->frames.size()));
  }
  return wrap(frames->pick(positions));
}

nb::iterator iterate(const VideoFrames& self) {
  nb::list pictures;
  const auto frames = self.read(kWhat);
  for (std::size_t i = 0; i < frames->frames.size(); ++i) {
    pictures.append(wrap(image_at(*frames, i)));
  }
  return nb::iter(pictures);
}

// Metadata are UTF-8 by FFmpeg's rule. Where FFmpeg passes on bytes of the file, they are mostly Latin-1, as in PNG
// (11.3.3.2).
nb::object text_of(const char* value) {
  const auto size = static_cast<Py_ssize_t>(std::char_traits<char>::length(value));
  nb::object text = nb::steal(PyUnicode_DecodeUTF8(value, size, "strict"));
  if (!text.is_valid()) {
    PyErr_Clear();
    text = nb::steal(PyUnicode_DecodeLatin1(value, size, "strict"));
  }
  return text;
}

nb::dict metadata(const ImageFrames& self) {
  nb::dict result;
  const auto frames = self.read(kWhat);
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(first_of(*frames).metadata, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    // The bytes come from the file and may be invalid.
    const nb::object value = text_of(entry->value);
    result[text_of(entry->key)] = value;
  }
  return result;
}

template <class Self>
nb::class_<Self> define(nb::module_& module, const char* name, const char* doc) {
  return nb::class_<Self>(module, name, nb::is_final(), nb::is_weak_referenceable(), doc)
      .def_prop_ro("num_errors", [](const Self& self) { return self.read(kWhat)->num_errors; }, kErrorsDoc)
      .def("clone", &clone<Self>, nb::sig((std::string("def clone(self) -> ") + name).c_str()), kCloneDoc)
      .def("__reduce_ex__", &refuse_to_pickle<Self>, "protocol"_a,
           nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex) -> typing.NoReturn"))
      .def("__reduce_transport__", &reduce_transport<Self>,
           nb::sig("def __reduce_transport__(self) -> tuple[typing.Any, ...]"), kTransportDoc);
}

template <class Class>
void define_picture(Class& type) {
  using Self = typename Class::Type;
  type.def_prop_ro("num_planes", [](const Self& self) { return num_planes(*self.read(kWhat)); },
                   "Planes of one picture as it lies in memory: 1 for ``rgb24``, 3 for ``yuv420p``. 0 without pictures.")
      .def_prop_ro("width", [](const Self& self) { return first_of(*self.read(kWhat)).width; }, "In pixels; 0 without pictures.")
      .def_prop_ro("height", [](const Self& self) { return first_of(*self.read(kWhat)).height; }, "In pixels; 0 without pictures.")
      .def_prop_ro("pix_fmt", [](const Self& self) { return av::pixel_format_name(first_of(*self.read(kWhat)).format); },
                   "Name of the pixel format; ``\"none\"`` without pictures.");
}

}  // namespace

void register_frames(nb::module_& module) {
  const auto count = [](const auto& self) { return self.read(kWhat)->num_frames(); };

  define<AudioFrames>(module, "AudioFrames", kAudioDoc)
      .def("__len__", [=](const AudioFrames& self) { return count(self); })
      .def_prop_ro("num_frames", [=](const AudioFrames& self) { return count(self); }, "Samples per channel.")
      .def_prop_ro("sample_rate", [](const AudioFrames& self) { return first_of(*self.read(kWhat)).sample_rate; },
                   "In Hz; 0 without samples.")
      .def_prop_ro("num_channels", [](const AudioFrames& self) { return first_of(*self.read(kWhat)).ch_layout.nb_channels; },
                   "0 without samples.")
      .def_prop_ro("sample_fmt", [](const AudioFrames& self) { return av::sample_format_name(first_of(*self.read(kWhat)).format); },
                   "Name of the sample format; ``\"none\"`` without samples.")
      .def("__repr__", &repr_audio);

  auto video = define<VideoFrames>(module, "VideoFrames", kVideoDoc);
  define_picture(video);
  video.def("__len__", [=](const VideoFrames& self) { return count(self); })
      .def_prop_ro("num_frames", [=](const VideoFrames& self) { return count(self); }, "Pictures.")
      .def_prop_ro("time_base",
                   [](const VideoFrames& self) {
                     const AVRational base = self.read(kWhat)->time_base;
                     return std::pair(base.num, base.den);
                   },
                   "Unit of ``get_pts()`` in seconds: numerator and denominator.")
      .def("get_timestamps",
           [](const VideoFrames& self) {
             const auto frames = self.read(kWhat);
             std::vector<double> times;
             for (const auto& frame : frames->frames) {
               times.push_back(seconds_or_nan(*frame, frames->time_base));
             }
             return times;
           },
           "Presentation time of each picture in seconds; NaN if the source has none.")
      .def("get_pts",
           [](const VideoFrames& self) {
             const auto frames = self.read(kWhat);
             std::vector<std::int64_t> ticks;
             for (const auto& frame : frames->frames) {
               ticks.push_back(frame->pts);
             }
             return ticks;
           },
           "Presentation time of each picture in ticks of ``time_base``.")
      .def("__getitem__", &get_picture, "key"_a,
           nb::sig("def __getitem__(self, key: int, /) -> ImageFrames"))
      .def("__getitem__", &get_pictures, "key"_a,
           nb::sig("def __getitem__(self, key: slice | collections.abc.Sequence[int] | "
                   "numpy.typing.NDArray[numpy.integer[typing.Any]], /) -> VideoFrames"))
      .def("__iter__", &iterate, nb::sig("def __iter__(self) -> collections.abc.Iterator[ImageFrames]"))
      .def("__repr__", &repr_video);

  auto image = define<ImageFrames>(module, "ImageFrames", kImageDoc);
  define_picture(image);
  image
      .def_prop_ro("metadata", &metadata, nb::sig("def metadata(self) -> dict[str, str]"),
                   "Metadata of the picture from the decoder or the file, such as EXIF or PNG text.")
      .def_prop_ro("pts",
                   [](const ImageFrames& self) {
                     const auto frames = self.read(kWhat);
                     return seconds_or_nan(first_of(*frames), frames->time_base);
                   },
                   "Presentation time in the source, in seconds; NaN if it has none.")
      .def("__repr__", &repr_image);

  module.def("restore_frames", &restore_frames, "data"_a, "others"_a,
             nb::sig("def restore_frames(data: typing_extensions.Buffer, *others: typing_extensions.Buffer) -> "
                     "AudioFrames | VideoFrames | ImageFrames"),
             "Restore frames from the buffers of ``__reduce_transport__``, without copying planes.");
}

}  // namespace spdl::bind
