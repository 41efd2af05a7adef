#include "media/reference_frames.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>
}

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "av/check.h"
#include "av/names.h"
#include "base/error.h"
#include "media/overread.h"

namespace spdl {
namespace {

constexpr const char* kAction = "make frames of an array";

[[noreturn]] void refuse(std::string reason) { throw Error(ErrorKind::kConvert, kAction, std::move(reason)); }

std::string text_of(std::span<const std::ptrdiff_t> shape) {
  std::string text;
  for (const std::ptrdiff_t side : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(side);
  }
  return "(" + text + ")";
}

void expect_elements(const ArrayView& array, bool is_float, int size, const std::string& format) {
  if ((array.type.kind == 'f') != is_float || array.type.size != size) {
    refuse("'" + format + "' has " + (is_float ? "floating point" : "integer") + " elements of " +
           std::to_string(8 * size) + " bits, and the array has " + name_of(array.type));
  }
}

int as_int(std::ptrdiff_t value, const ArrayView& array) {
  if (value < 1 || value > std::numeric_limits<int>::max()) {
    refuse("every size must be from 1 to 2147483647; the shape is " + text_of(array.shape));
  }
  return static_cast<int>(value);
}

// A copy of `size` bytes with room behind it, for the few arrays behind which nothing may be mapped.
av::BufferRefPtr copy_with_padding(const std::uint8_t* data, std::size_t size) {
  auto copy = av::own<av::BufferRefPtr>(av_buffer_alloc(size + kOverread));
  std::memcpy(copy->data, data, size);
  std::memset(copy->data + size, 0, kOverread);
  return copy;
}

// Where a frame's bytes are: in the array, or in a copy of this part of it. Gives `frame` its reference.
std::uint8_t* place(AVFrame& frame, std::uint8_t* data, std::size_t size, const ArrayView& array,
                    const AVBufferRef& memory) {
  const std::uint8_t* end = data + size;
  if (end == array.data + array.num_bytes && may_be_followed_by_nothing(end)) {
    frame.buf[0] = copy_with_padding(data, size).release();
    return frame.buf[0]->data;
  }
  frame.buf[0] = av::own<av::BufferRefPtr>(av_buffer_ref(&memory)).release();
  return data;
}

// ------------------------------------------------------------------------------------------------------------ pictures

struct PictureFormat {
  AVPixelFormat format;
  std::size_t rank;
  int channels;     // along the axis of channels, where there is one
  bool is_planar;   // (N, channels, H, W), else (N, H, W, channels)
  int size;         // of an element
  const char* shape;
};

constexpr std::array kPictureFormats{
    PictureFormat{AV_PIX_FMT_RGB24, 4, 3, false, 1, "(N, H, W, 3)"},
    PictureFormat{AV_PIX_FMT_BGR24, 4, 3, false, 1, "(N, H, W, 3)"},
    PictureFormat{AV_PIX_FMT_GRAY8, 3, 1, false, 1, "(N, H, W)"},
    PictureFormat{AV_PIX_FMT_GRAY16LE, 3, 1, false, 2, "(N, H, W)"},
    PictureFormat{AV_PIX_FMT_GRAY16BE, 3, 1, false, 2, "(N, H, W)"},
    PictureFormat{AV_PIX_FMT_YUV444P, 4, 3, true, 1, "(N, 3, H, W)"},
};

const PictureFormat& picture_format(const std::string& name) {
  const AVPixelFormat format = av_get_pix_fmt(name.c_str());
  for (const PictureFormat& known : kPictureFormats) {
    if (known.format == format) {
      return known;
    }
  }
  throw Error(ErrorKind::kUnsupportedFormat, kAction,
              "pix_fmt must be one of rgb24, bgr24, gray, gray8, gray16, gray16le, gray16be, yuv444p, got '" + name + "'");
}

// ------------------------------------------------------------------------------------------------------------- samples

AVSampleFormat sample_format(const std::string& name) {
  const AVSampleFormat format = av_get_sample_fmt(name.c_str());
  if (format == AV_SAMPLE_FMT_NONE) {
    throw Error(ErrorKind::kUnsupportedFormat, kAction,
                "sample_fmt must be one of u8, s16, s32, s64, flt, dbl and, planar, u8p, s16p, s32p, s64p, fltp, dblp, "
                "got '" + name + "'");
  }
  return format;
}

// More planes than the frame has room for need an array of their own, which the frame frees.
std::uint8_t** make_planes(AVFrame& frame, std::size_t num_planes) {
  if (num_planes <= AV_NUM_DATA_POINTERS) {
    return frame.extended_data = frame.data;
  }
  void* planes = av_calloc(num_planes, sizeof(std::uint8_t*));
  if (planes == nullptr) {
    throw std::bad_alloc();
  }
  return frame.extended_data = static_cast<std::uint8_t**>(planes);
}

}  // namespace

av::BufferRefPtr make_reference(const ArrayView& array, void (*release)(void* owner, std::uint8_t* data), void* owner) {
  AVBufferRef* memory = av_buffer_create(array.data, array.num_bytes, release, owner, AV_BUFFER_FLAG_READONLY);
  if (memory == nullptr) {
    release(owner, array.data);
    throw std::bad_alloc();
  }
  return av::BufferRefPtr(memory);
}

Frames reference_pictures(const ArrayView& array, const std::string& pix_fmt, AVRational frame_rate, std::int64_t pts,
                          const AVBufferRef& memory) {
  const PictureFormat& format = picture_format(pix_fmt);
  const auto& shape = array.shape;
  if (shape.size() != format.rank ||
      (format.rank == 4 && shape[format.is_planar ? 1 : 3] != format.channels)) {
    refuse("the shape for '" + pix_fmt + "' is " + format.shape + ", got " + text_of(shape));
  }
  expect_elements(array, false, format.size, pix_fmt);
  const int count = as_int(shape[0], array);
  const int height = as_int(shape[format.is_planar ? 2 : 1], array);
  const int width = as_int(shape[format.is_planar ? 3 : 2], array);
  const std::size_t picture_bytes = array.num_bytes / static_cast<std::size_t>(count);
  const std::size_t num_planes = format.is_planar ? static_cast<std::size_t>(format.channels) : 1;
  const std::size_t plane_bytes = picture_bytes / num_planes;
  const std::size_t row_bytes = plane_bytes / static_cast<std::size_t>(height);
  if (row_bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    refuse("a row has more bytes than a frame can have; the shape is " + text_of(shape));
  }

  Frames frames;
  frames.type = MediaType::kVideo;
  frames.source = "an array";
  frames.time_base = {frame_rate.den, frame_rate.num};
  for (int i = 0; i < count; ++i) {
    av::FramePtr frame = av::new_frame();
    std::uint8_t* picture = array.data + static_cast<std::size_t>(i) * picture_bytes;
    picture = place(*frame, picture, picture_bytes, array, memory);
    for (std::size_t plane = 0; plane < num_planes; ++plane) {
      frame->data[plane] = picture + plane * plane_bytes;
      frame->linesize[plane] = static_cast<int>(row_bytes);
    }
    frame->format = format.format;
    frame->width = width;
    frame->height = height;
    frame->pts = pts + i;
    frame->time_base = frames.time_base;
    frame->sample_aspect_ratio = {1, 1};
    frames.frames.push_back(std::move(frame));
  }
  return frames;
}

Frames reference_samples(const ArrayView& array, const std::string& sample_fmt, int sample_rate, std::int64_t pts,
                         const AVBufferRef& memory) {
  const AVSampleFormat format = sample_format(sample_fmt);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  const AVSampleFormat packed = av_get_packed_sample_fmt(format);
  if (array.shape.size() != 2) {
    refuse("the shape for '" + sample_fmt + "' is " + (is_planar ? "(channels, samples)" : "(samples, channels)") +
           ", got " + text_of(array.shape));
  }
  expect_elements(array, packed == AV_SAMPLE_FMT_FLT || packed == AV_SAMPLE_FMT_DBL, av_get_bytes_per_sample(format),
                  sample_fmt);
  const int num_channels = as_int(array.shape[is_planar ? 0 : 1], array);
  const int num_samples = as_int(array.shape[is_planar ? 1 : 0], array);
  const std::size_t num_planes = is_planar ? static_cast<std::size_t>(num_channels) : 1;
  const std::size_t plane_bytes = array.num_bytes / num_planes;
  if (plane_bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    refuse("there are more samples than a frame can have; the shape is " + text_of(array.shape));
  }

  Frames frames;
  frames.type = MediaType::kAudio;
  frames.source = "an array";
  frames.time_base = {1, sample_rate};
  av::FramePtr frame = av::new_frame();
  std::uint8_t* samples = place(*frame, array.data, array.num_bytes, array, memory);
  std::uint8_t** planes = make_planes(*frame, num_planes);
  for (std::size_t plane = 0; plane < num_planes; ++plane) {
    planes[plane] = samples + plane * plane_bytes;
    if (plane < AV_NUM_DATA_POINTERS) {
      frame->data[plane] = planes[plane];
    }
  }
  frame->linesize[0] = static_cast<int>(plane_bytes);
  frame->format = format;
  frame->sample_rate = sample_rate;
  frame->nb_samples = num_samples;
  av_channel_layout_default(&frame->ch_layout, num_channels);
  frame->pts = pts;
  frame->time_base = frames.time_base;
  frames.frames.push_back(std::move(frame));
  return frames;
}

}  // namespace spdl
