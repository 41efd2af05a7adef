#include "media/picture_layout.h"

#include <array>
#include <bit>
#include <cstring>

#include "av/names.h"
#include "base/error.h"
#include "media/stored_samples.h"

namespace spdl {
namespace {

enum class Planes {
  kPacked,      // (height, width, channels)
  kChannels,    // (channels, height, width)
  kHalfRows,    // 4:2:0: (1, height * 3 / 2, width), rows of chroma after those of luma; with alpha, its rows come last
  kDoubleRows,  // 4:2:2: (1, height * 2, width); with alpha: (1, height * 3, width)
};

struct Entry {
  const char* name;  // that users know
  AVPixelFormat format;
  Planes planes;
  int channels;
  ElementType type;
  std::endian order = std::endian::native;
};

constexpr std::array kEntries{
    Entry{"rgb24", AV_PIX_FMT_RGB24, Planes::kPacked, 3, kUint8},
    Entry{"bgr24", AV_PIX_FMT_BGR24, Planes::kPacked, 3, kUint8},
    Entry{"rgba", AV_PIX_FMT_RGBA, Planes::kPacked, 4, kUint8},
    Entry{"rgb48", AV_PIX_FMT_RGB48LE, Planes::kPacked, 3, kUint16, std::endian::little},
    Entry{"rgb48", AV_PIX_FMT_RGB48BE, Planes::kPacked, 3, kUint16, std::endian::big},
    Entry{"bgra", AV_PIX_FMT_BGRA, Planes::kPacked, 4, kUint8},
    Entry{"argb", AV_PIX_FMT_ARGB, Planes::kPacked, 4, kUint8},
    Entry{"abgr", AV_PIX_FMT_ABGR, Planes::kPacked, 4, kUint8},
    Entry{"ya8", AV_PIX_FMT_YA8, Planes::kPacked, 2, kUint8},
    Entry{"rgba64", AV_PIX_FMT_RGBA64LE, Planes::kPacked, 4, kUint16, std::endian::little},
    Entry{"rgba64", AV_PIX_FMT_RGBA64BE, Planes::kPacked, 4, kUint16, std::endian::big},
    Entry{"gbrp", AV_PIX_FMT_GBRP, Planes::kChannels, 3, kUint8},
    Entry{"gbrap", AV_PIX_FMT_GBRAP, Planes::kChannels, 4, kUint8},
    Entry{"gbrp10", AV_PIX_FMT_GBRP10LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"gbrp10", AV_PIX_FMT_GBRP10BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"gray10", AV_PIX_FMT_GRAY10LE, Planes::kChannels, 1, kUint16, std::endian::little},
    Entry{"gray10", AV_PIX_FMT_GRAY10BE, Planes::kChannels, 1, kUint16, std::endian::big},
    Entry{"gray12", AV_PIX_FMT_GRAY12LE, Planes::kChannels, 1, kUint16, std::endian::little},
    Entry{"gray12", AV_PIX_FMT_GRAY12BE, Planes::kChannels, 1, kUint16, std::endian::big},
    Entry{"gray9", AV_PIX_FMT_GRAY9LE, Planes::kChannels, 1, kUint16, std::endian::little},
    Entry{"gray9", AV_PIX_FMT_GRAY9BE, Planes::kChannels, 1, kUint16, std::endian::big},
    Entry{"gray14", AV_PIX_FMT_GRAY14LE, Planes::kChannels, 1, kUint16, std::endian::little},
    Entry{"gray14", AV_PIX_FMT_GRAY14BE, Planes::kChannels, 1, kUint16, std::endian::big},
    Entry{"gbrp9", AV_PIX_FMT_GBRP9LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"gbrp9", AV_PIX_FMT_GBRP9BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"gbrp14", AV_PIX_FMT_GBRP14LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"gbrp14", AV_PIX_FMT_GBRP14BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"gray", AV_PIX_FMT_GRAY8, Planes::kPacked, 1, kUint8},
    Entry{"gray16", AV_PIX_FMT_GRAY16LE, Planes::kChannels, 1, kUint16, std::endian::little},
    Entry{"gray16", AV_PIX_FMT_GRAY16BE, Planes::kChannels, 1, kUint16, std::endian::big},
    Entry{"yuv444p", AV_PIX_FMT_YUV444P, Planes::kChannels, 3, kUint8},
    Entry{"yuvj444p", AV_PIX_FMT_YUVJ444P, Planes::kChannels, 3, kUint8},
    Entry{"yuv422p", AV_PIX_FMT_YUV422P, Planes::kDoubleRows, 3, kUint8},
    Entry{"yuvj422p", AV_PIX_FMT_YUVJ422P, Planes::kDoubleRows, 3, kUint8},
    Entry{"yuv420p", AV_PIX_FMT_YUV420P, Planes::kHalfRows, 3, kUint8},
    Entry{"yuvj420p", AV_PIX_FMT_YUVJ420P, Planes::kHalfRows, 3, kUint8},
    Entry{"nv12", AV_PIX_FMT_NV12, Planes::kHalfRows, 2, kUint8},
    Entry{"yuva444p", AV_PIX_FMT_YUVA444P, Planes::kChannels, 4, kUint8},
    Entry{"yuva422p", AV_PIX_FMT_YUVA422P, Planes::kDoubleRows, 4, kUint8},
    Entry{"yuva420p", AV_PIX_FMT_YUVA420P, Planes::kHalfRows, 4, kUint8},
    Entry{"yuv444p10", AV_PIX_FMT_YUV444P10LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"yuv444p10", AV_PIX_FMT_YUV444P10BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"yuv444p12", AV_PIX_FMT_YUV444P12LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"yuv444p12", AV_PIX_FMT_YUV444P12BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"yuv422p10", AV_PIX_FMT_YUV422P10LE, Planes::kDoubleRows, 3, kUint16, std::endian::little},
    Entry{"yuv422p10", AV_PIX_FMT_YUV422P10BE, Planes::kDoubleRows, 3, kUint16, std::endian::big},
    Entry{"yuv422p12", AV_PIX_FMT_YUV422P12LE, Planes::kDoubleRows, 3, kUint16, std::endian::little},
    Entry{"yuv422p12", AV_PIX_FMT_YUV422P12BE, Planes::kDoubleRows, 3, kUint16, std::endian::big},
    Entry{"yuv420p10", AV_PIX_FMT_YUV420P10LE, Planes::kHalfRows, 3, kUint16, std::endian::little},
    Entry{"yuv420p10", AV_PIX_FMT_YUV420P10BE, Planes::kHalfRows, 3, kUint16, std::endian::big},
    Entry{"yuv420p12", AV_PIX_FMT_YUV420P12LE, Planes::kHalfRows, 3, kUint16, std::endian::little},
    Entry{"yuv420p12", AV_PIX_FMT_YUV420P12BE, Planes::kHalfRows, 3, kUint16, std::endian::big},
    Entry{"p010", AV_PIX_FMT_P010LE, Planes::kHalfRows, 2, kUint16, std::endian::little},
    Entry{"p010", AV_PIX_FMT_P010BE, Planes::kHalfRows, 2, kUint16, std::endian::big},
    Entry{"gbrp12", AV_PIX_FMT_GBRP12LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"gbrp12", AV_PIX_FMT_GBRP12BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"gbrp16", AV_PIX_FMT_GBRP16LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"gbrp16", AV_PIX_FMT_GBRP16BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"gbrap10", AV_PIX_FMT_GBRAP10LE, Planes::kChannels, 4, kUint16, std::endian::little},
    Entry{"gbrap10", AV_PIX_FMT_GBRAP10BE, Planes::kChannels, 4, kUint16, std::endian::big},
    Entry{"gbrap12", AV_PIX_FMT_GBRAP12LE, Planes::kChannels, 4, kUint16, std::endian::little},
    Entry{"gbrap12", AV_PIX_FMT_GBRAP12BE, Planes::kChannels, 4, kUint16, std::endian::big},
    Entry{"gbrap16", AV_PIX_FMT_GBRAP16LE, Planes::kChannels, 4, kUint16, std::endian::little},
    Entry{"gbrap16", AV_PIX_FMT_GBRAP16BE, Planes::kChannels, 4, kUint16, std::endian::big},
    Entry{"yuv444p16", AV_PIX_FMT_YUV444P16LE, Planes::kChannels, 3, kUint16, std::endian::little},
    Entry{"yuv444p16", AV_PIX_FMT_YUV444P16BE, Planes::kChannels, 3, kUint16, std::endian::big},
    Entry{"yuv422p16", AV_PIX_FMT_YUV422P16LE, Planes::kDoubleRows, 3, kUint16, std::endian::little},
    Entry{"yuv422p16", AV_PIX_FMT_YUV422P16BE, Planes::kDoubleRows, 3, kUint16, std::endian::big},
    Entry{"yuv420p16", AV_PIX_FMT_YUV420P16LE, Planes::kHalfRows, 3, kUint16, std::endian::little},
    Entry{"yuv420p16", AV_PIX_FMT_YUV420P16BE, Planes::kHalfRows, 3, kUint16, std::endian::big},
    Entry{"yuva444p10", AV_PIX_FMT_YUVA444P10LE, Planes::kChannels, 4, kUint16, std::endian::little},
    Entry{"yuva444p10", AV_PIX_FMT_YUVA444P10BE, Planes::kChannels, 4, kUint16, std::endian::big},
    Entry{"yuva422p10", AV_PIX_FMT_YUVA422P10LE, Planes::kDoubleRows, 4, kUint16, std::endian::little},
    Entry{"yuva422p10", AV_PIX_FMT_YUVA422P10BE, Planes::kDoubleRows, 4, kUint16, std::endian::big},
    Entry{"yuva420p10", AV_PIX_FMT_YUVA420P10LE, Planes::kHalfRows, 4, kUint16, std::endian::little},
    Entry{"yuva420p10", AV_PIX_FMT_YUVA420P10BE, Planes::kHalfRows, 4, kUint16, std::endian::big},
    Entry{"yuva444p12", AV_PIX_FMT_YUVA444P12LE, Planes::kChannels, 4, kUint16, std::endian::little},
    Entry{"yuva444p12", AV_PIX_FMT_YUVA444P12BE, Planes::kChannels, 4, kUint16, std::endian::big},
    Entry{"yuva422p12", AV_PIX_FMT_YUVA422P12LE, Planes::kDoubleRows, 4, kUint16, std::endian::little},
    Entry{"yuva422p12", AV_PIX_FMT_YUVA422P12BE, Planes::kDoubleRows, 4, kUint16, std::endian::big},
    Entry{"yuva444p16", AV_PIX_FMT_YUVA444P16LE, Planes::kChannels, 4, kUint16, std::endian::little},
    Entry{"yuva444p16", AV_PIX_FMT_YUVA444P16BE, Planes::kChannels, 4, kUint16, std::endian::big},
    Entry{"yuva422p16", AV_PIX_FMT_YUVA422P16LE, Planes::kDoubleRows, 4, kUint16, std::endian::little},
    Entry{"yuva422p16", AV_PIX_FMT_YUVA422P16BE, Planes::kDoubleRows, 4, kUint16, std::endian::big},
    Entry{"yuva420p16", AV_PIX_FMT_YUVA420P16LE, Planes::kHalfRows, 4, kUint16, std::endian::little},
    Entry{"yuva420p16", AV_PIX_FMT_YUVA420P16BE, Planes::kHalfRows, 4, kUint16, std::endian::big},
    Entry{"p016", AV_PIX_FMT_P016LE, Planes::kHalfRows, 2, kUint16, std::endian::little},
    Entry{"p016", AV_PIX_FMT_P016BE, Planes::kHalfRows, 2, kUint16, std::endian::big},
    Entry{"ya16", AV_PIX_FMT_YA16LE, Planes::kPacked, 2, kUint16, std::endian::little},
    Entry{"ya16", AV_PIX_FMT_YA16BE, Planes::kPacked, 2, kUint16, std::endian::big},
};

constexpr const char* kAction = "convert";

const Entry& entry_of(int format) {
  std::string names;
  const char* last = "";
  for (const Entry& entry : kEntries) {
    if (entry.format == format) {
      return entry;
    }
    if (std::strcmp(last, entry.name) != 0) {
      names += names.empty() ? "" : ", ";
      names += last = entry.name;
    }
  }
  throw Error(ErrorKind::kUnsupportedFormat, kAction,
              "pixel format '" + av::pixel_format_name(format) + "' has no array layout; those that have one are " +
                  names + ". A filter such as 'format=pix_fmts=rgb24' converts");
}

void swap_bytes(std::uint8_t* data, std::size_t num_bytes) noexcept {
  for (std::size_t i = 0; i + 1 < num_bytes; i += 2) {
    std::uint16_t value;
    std::memcpy(&value, data + i, sizeof(value));
    value = static_cast<std::uint16_t>((value >> 8) | (value << 8));
    std::memcpy(data + i, &value, sizeof(value));
  }
}

}  // namespace

std::size_t PictureLayout::num_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const PlaneRows& plane : planes) {
    bytes += plane.num_rows * plane.row_bytes;
  }
  return bytes;
}

PictureLayout picture_layout(const AVFrame& frame) {
  const auto samples = stored_samples(frame);
  if (!samples) {
    return picture_layout(frame.format, frame.width, frame.height);
  }
  PictureLayout layout;
  layout.type = samples->type;
  layout.shape = {frame.height, frame.width, samples->num_channels};
  layout.planes = {{static_cast<std::size_t>(frame.height), static_cast<std::size_t>(frame.linesize[0])}};
  return layout;
}

PictureLayout picture_layout(int format, int width, int height) {
  const Entry& entry = entry_of(format);
  if (width < 1 || height < 1) {
    throw Error(ErrorKind::kConvert, kAction,
                "a picture has a size of " + std::to_string(width) + "x" + std::to_string(height));
  }
  const auto w = static_cast<std::size_t>(width);
  const auto h = static_cast<std::size_t>(height);
  const auto channels = static_cast<std::size_t>(entry.channels);
  const auto element = static_cast<std::size_t>(entry.type.size);
  PictureLayout layout;
  layout.type = entry.type;
  layout.is_swapped = entry.order != std::endian::native;
  switch (entry.planes) {
    case Planes::kPacked:
      layout.shape = {height, width, entry.channels};
      layout.planes = {{h, w * channels * element}};
      return layout;
    case Planes::kChannels:
      layout.shape = {entry.channels, height, width};
      layout.planes.assign(channels, {h, w * element});
      return layout;
    case Planes::kHalfRows:
    case Planes::kDoubleRows:
      break;
  }
  // Both planes of chroma together are as wide as the picture, so that they make whole rows of the array.
  if (width % 2 != 0) {
    throw Error(ErrorKind::kUnsupportedFormat, kAction,
                std::string("pixel format '") + entry.name + "' has an array layout for even widths only, and the width is " +
                    std::to_string(width) + ". Filters such as 'format=pix_fmts=yuv444p' or 'crop=w=trunc(iw/2)*2' help");
  }
  const std::size_t chroma_rows = entry.planes == Planes::kHalfRows ? (h + 1) / 2 : h;
  const bool has_alpha = channels == 4;
  layout.shape = {1, static_cast<std::ptrdiff_t>(h + chroma_rows + (has_alpha ? h : 0)), width};
  layout.planes.push_back({h, w * element});
  if (channels == 2) {  // both of chroma in one plane
    layout.planes.push_back({chroma_rows, w * element});
  } else {
    layout.planes.insert(layout.planes.end(), 2, {chroma_rows, w / 2 * element});
  }
  if (has_alpha) {
    layout.planes.push_back({h, w * element});
  }
  return layout;
}

void copy_picture(const PictureLayout& layout, const AVFrame& frame, std::uint8_t* out) {
  std::uint8_t* const start = out;
  for (std::size_t i = 0; i < layout.planes.size(); ++i) {
    const PlaneRows& plane = layout.planes[i];
    const std::uint8_t* row = frame.data[i];
    const std::ptrdiff_t stride = frame.linesize[i];
    if (stride == static_cast<std::ptrdiff_t>(plane.row_bytes)) {
      std::memmove(out, row, plane.num_rows * plane.row_bytes);
      out += plane.num_rows * plane.row_bytes;
      continue;
    }
    // Negative strides (pictures stored bottom up) work as well.
    for (std::size_t y = 0; y < plane.num_rows; ++y, out += plane.row_bytes) {
      std::memmove(out, row + static_cast<std::ptrdiff_t>(y) * stride, plane.row_bytes);
    }
  }
  if (layout.is_swapped) {
    swap_bytes(start, static_cast<std::size_t>(out - start));
  }
}

}  // namespace spdl
