#include "media/convert.h"

#include <cstring>
#include <limits>
#include <utility>

#include "av/names.h"
#include "base/error.h"
#include "media/picture_layout.h"
#include "media/stored_samples.h"

namespace spdl {
namespace {

constexpr const char* kAction = "convert";
constexpr std::size_t kMost = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

[[noreturn]] void refuse(const Frames& frames, std::string reason) {
  throw Error(ErrorKind::kConvert, kAction, std::move(reason)).in(frames.source);
}

const AVFrame& first_of(const Frames& frames) {
  if (frames.frames.empty()) {
    refuse(frames, std::string("there are no ") + (frames.type == MediaType::kAudio ? "samples" : "pictures"));
  }
  return *frames.frames.front();
}

// ------------------------------------------------------------------------------------------------------------ pictures

std::string size_of(const AVFrame& frame) {
  const auto samples = stored_samples(frame);
  return (samples ? name_of(samples->type) : av::pixel_format_name(frame.format)) + " of " + std::to_string(frame.width) + "x" +
         std::to_string(frame.height);
}

PictureLayout pictures_of(const Frames& frames) {
  const AVFrame& first = first_of(frames);
  if (frames.type == MediaType::kImage && frames.frames.size() != 1) {
    refuse(frames, "an image must be a single picture, got " + std::to_string(frames.frames.size()));
  }
  PictureLayout layout;
  try {
    layout = picture_layout(first);
  } catch (Error& error) {
    error.source = frames.source;
    throw;
  }
  for (std::size_t i = 0; i < frames.frames.size(); ++i) {
    const AVFrame& frame = *frames.frames[i];
    if (frame.format != first.format || frame.width != first.width || frame.height != first.height ||
        stored_samples(frame) != stored_samples(first)) {
      refuse(frames, "pictures must agree in format and size; the first is " + size_of(first) + ", number " +
                         std::to_string(i) + " is " + size_of(frame));
    }
    for (std::size_t plane = 0; plane < layout.planes.size(); ++plane) {
      if (frame.data[plane] == nullptr) {
        refuse(frames, "picture " + std::to_string(i) + " has no data");
      }
    }
  }
  return layout;
}

ArrayLayout layout_of_pictures(const Frames& frames) {
  const PictureLayout picture = pictures_of(frames);
  ArrayLayout layout{picture.shape, picture.type, picture.num_bytes()};
  if (frames.type == MediaType::kImage) {
    return layout;
  }
  const std::size_t count = frames.frames.size();
  if (layout.num_bytes > kMost / count) {
    refuse(frames, "the array would be larger than the address space");
  }
  layout.shape.insert(layout.shape.begin(), static_cast<std::ptrdiff_t>(count));
  layout.num_bytes *= count;
  return layout;
}

// ------------------------------------------------------------------------------------------------------------- samples

ElementType element_of(const Frames& frames, int format) {
  switch (av_get_packed_sample_fmt(static_cast<AVSampleFormat>(format))) {
    case AV_SAMPLE_FMT_U8:
      return kUint8;
    case AV_SAMPLE_FMT_S16:
      return kInt16;
    case AV_SAMPLE_FMT_S32:
      return kInt32;
    case AV_SAMPLE_FMT_S64:
      return kInt64;
    case AV_SAMPLE_FMT_FLT:
      return kFloat32;
    case AV_SAMPLE_FMT_DBL:
      return kFloat64;
    default:
      throw Error(ErrorKind::kUnsupportedFormat, kAction,
                  "sample format '" + av::sample_format_name(format) +
                      "' has no array layout; those that have one are u8, s16, s32, s64, flt, dbl and, planar, u8p, "
                      "s16p, s32p, s64p, fltp, dblp")
          .in(frames.source);
  }
}

bool is_planar(const AVFrame& frame) noexcept {
  return av_sample_fmt_is_planar(static_cast<AVSampleFormat>(frame.format)) != 0;
}

std::string kind_of(const AVFrame& frame) {
  return av::sample_format_name(frame.format) + " with " + std::to_string(frame.ch_layout.nb_channels) +
         " channels at " + std::to_string(frame.sample_rate) + " Hz";
}

ArrayLayout layout_of_samples(const Frames& frames) {
  const AVFrame& first = first_of(frames);
  ArrayLayout layout;
  layout.type = element_of(frames, first.format);
  const int num_channels = first.ch_layout.nb_channels;
  if (num_channels < 1) {
    refuse(frames, "they have no channels");
  }
  for (std::size_t i = 0; i < frames.frames.size(); ++i) {
    const AVFrame& frame = *frames.frames[i];
    if (frame.format != first.format || frame.ch_layout.nb_channels != num_channels ||
        frame.sample_rate != first.sample_rate) {
      refuse(frames, "samples must agree in format, channels and rate; the first are " + kind_of(first) +
                         ", those of frame " + std::to_string(i) + " are " + kind_of(frame));
    }
    if (frame.nb_samples < 0 || (frame.nb_samples > 0 && frame.extended_data[0] == nullptr)) {
      refuse(frames, "frame " + std::to_string(i) + " has no data");
    }
  }
  const std::size_t num_samples = frames.num_frames();
  const std::size_t sample_bytes = static_cast<std::size_t>(num_channels) * static_cast<std::size_t>(layout.type.size);
  if (num_samples > kMost / sample_bytes) {
    refuse(frames, "the array would be larger than the address space");
  }
  layout.num_bytes = num_samples * sample_bytes;
  layout.shape = {num_channels, static_cast<std::ptrdiff_t>(num_samples)};
  if (!is_planar(first)) {
    std::swap(layout.shape[0], layout.shape[1]);
  }
  return layout;
}

void copy_samples(const Frames& frames, std::uint8_t* out) {
  const ArrayLayout layout = layout_of_samples(frames);
  // Packed samples are one plane whose samples hold all channels.
  const bool planar = is_planar(*frames.frames.front());
  const auto num_planes = planar ? static_cast<std::size_t>(layout.shape[0]) : 1;
  const std::size_t plane_bytes = layout.num_bytes / num_planes;
  const std::size_t sample_bytes =
      static_cast<std::size_t>(layout.type.size) * (planar ? 1 : static_cast<std::size_t>(layout.shape[1]));
  for (const auto& frame : frames.frames) {
    const std::size_t num_bytes = static_cast<std::size_t>(frame->nb_samples) * sample_bytes;
    if (num_bytes == 0) {
      continue;
    }
    for (std::size_t plane = 0; plane < num_planes; ++plane) {
      std::memmove(out + plane * plane_bytes, frame->extended_data[plane], num_bytes);
    }
    out += num_bytes;
  }
}

}  // namespace

ArrayLayout layout_of(const Frames& frames) {
  return frames.type == MediaType::kAudio ? layout_of_samples(frames) : layout_of_pictures(frames);
}

void copy_frames(const Frames& frames, std::uint8_t* out) {
  if (frames.type == MediaType::kAudio) {
    copy_samples(frames, out);
    return;
  }
  const PictureLayout layout = pictures_of(frames);
  for (const auto& frame : frames.frames) {
    copy_picture(layout, *frame, out);
    out += layout.num_bytes();
  }
}

std::string format_name_of(const Frames& frames) {
  const int format = first_of(frames).format;
  if (const auto samples = stored_samples(first_of(frames))) {
    return name_of(samples->type);
  }
  return frames.type == MediaType::kAudio ? av::sample_format_name(format) : av::pixel_format_name(format);
}

}  // namespace spdl
