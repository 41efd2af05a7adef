#include "media/plane_map.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <array>
#include <tuple>

#include "av/names.h"
#include "base/buffer.h"
#include "base/error.h"
#include "media/overread.h"
#include "media/shared_bytes.h"

namespace spdl {
namespace {

constexpr const char* kAction = "send frames to another process";
// Planes with less between them are one range.
constexpr std::uintptr_t kGap = 4096;

std::uintptr_t address(const std::uint8_t* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

std::vector<Extent> picture_extents(const AVFrame& frame) {
  const AVPixelFormat format = av::pixel_format_of(frame.format);
  const AVPixFmtDescriptor* descriptor = av_pix_fmt_desc_get(format);
  std::array<int, 4> row_bytes{};
  if (descriptor == nullptr || (descriptor->flags & AV_PIX_FMT_FLAG_HWACCEL) != 0 || frame.width < 1 ||
      frame.height < 1 || av_image_fill_linesizes(row_bytes.data(), format, frame.width) < 0) {
    return {};
  }
  std::vector<Extent> extents;
  for (int i = 0; i < av_pix_fmt_count_planes(format); ++i) {
    const bool is_chroma = i == 1 || i == 2;
    const auto rows = static_cast<std::size_t>(
        is_chroma ? AV_CEIL_RSHIFT(frame.height, descriptor->log2_chroma_h) : frame.height);
    const auto width = static_cast<std::size_t>(row_bytes[static_cast<std::size_t>(i)]);
    const std::int64_t step = frame.linesize[i];
    const auto stride = static_cast<std::size_t>(step < 0 ? -step : step);
    if (stride < width && rows > 1) {
      return {};
    }
    const std::size_t above = stride * (rows - 1);
    extents.push_back(
        {step < 0 ? above : 0, above + width, step < 0 ? above + width : above + std::max(stride, width)});
  }
  if ((descriptor->flags & AV_PIX_FMT_FLAG_PAL) != 0) {
    extents.resize(1);
    extents.push_back({0, AVPALETTE_SIZE, AVPALETTE_SIZE});
  }
  return extents;
}

std::vector<Extent> sample_extents(const AVFrame& frame) {
  const AVSampleFormat format = av::sample_format_of(frame.format);
  const int sample_bytes = av_get_bytes_per_sample(format);
  if (sample_bytes < 1 || frame.nb_samples < 0 || frame.ch_layout.nb_channels < 1) {
    return {};
  }
  const auto num_channels = static_cast<std::size_t>(frame.ch_layout.nb_channels);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  const std::size_t size = static_cast<std::size_t>(sample_bytes) * static_cast<std::size_t>(frame.nb_samples) *
                           (is_planar ? 1 : num_channels);
  const std::size_t with_padding = std::max(size, static_cast<std::size_t>(std::max(frame.linesize[0], 0)));
  return std::vector<Extent>(is_planar ? num_channels : 1, Extent{0, size, with_padding});
}

const AVBufferRef* find_reference(const AVFrame& frame, std::uintptr_t begin, std::uintptr_t end) noexcept {
  const auto keeps = [&](const AVBufferRef* reference) {
    return reference != nullptr && address(reference->data) <= begin &&
           end <= address(reference->data) + reference->size;
  };
  for (const AVBufferRef* reference : frame.buf) {
    if (keeps(reference)) {
      return reference;
    }
  }
  for (int i = 0; i < frame.nb_extended_buf; ++i) {
    if (keeps(frame.extended_buf[i])) {
      return frame.extended_buf[i];
    }
  }
  return nullptr;
}

// Where the plane is, with what may be read beyond its end and is there.
MemoryRange range_of(const AVFrame& frame, std::size_t plane, const Extent& extent) {
  MemoryRange range;
  range.begin = address(frame.extended_data[plane]) - extent.before;
  range.planes_end = range.begin + extent.size;
  range.reference = find_reference(frame, range.begin, range.planes_end);
  if (range.reference == nullptr) {
    throw Error(ErrorKind::kMedia, kAction, "their memory is not reference-counted");
  }
  const std::uintptr_t limit = address(range.reference->data) + range.reference->size;
  range.is_in_band = limit - range.planes_end < kPromisedOverread;
  range.end = std::min(range.begin + extent.with_padding + kOverread, limit);
  return range;
}

// One range for all that overlap or nearly touch in the same memory, from an address on that is aligned if it can be.
PlaneMap merge(const std::vector<MemoryRange>& planes) {
  std::vector<std::size_t> order(planes.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  const auto key = [&](std::size_t i) {
    // What has to be copied is not mixed with the rest.
    return std::tuple(reinterpret_cast<std::uintptr_t>(planes[i].reference->buffer), planes[i].is_in_band,
                      planes[i].begin);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  PlaneMap map;
  map.of_plane.resize(planes.size());
  for (const std::size_t i : order) {
    const MemoryRange& plane = planes[i];
    MemoryRange* last = map.ranges.empty() ? nullptr : &map.ranges.back();
    if (last == nullptr || last->reference->buffer != plane.reference->buffer || last->is_in_band != plane.is_in_band ||
        plane.begin > last->end + kGap) {
      last = &map.ranges.emplace_back(plane);
      last->begin = std::max(plane.begin & ~(kAlignment - 1), address(plane.reference->data));
    }
    last->end = std::max(last->end, plane.end);
    last->planes_end = std::max(last->planes_end, plane.planes_end);
    map.of_plane[i] = map.ranges.size() - 1;
  }
  for (MemoryRange& range : map.ranges) {
    range.is_in_band |= range.end - range.begin < kMinOutOfBand;
  }
  return map;
}

// A frame can refer to AV_NUM_DATA_POINTERS buffers, the size of AVFrame::buf.
void move_in_band_where_too_many(PlaneMap& map, std::size_t first_plane, std::size_t num_planes) {
  const auto begin = map.of_plane.begin() + static_cast<std::ptrdiff_t>(first_plane);
  std::vector<std::size_t> used(begin, begin + static_cast<std::ptrdiff_t>(num_planes));
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  if (used.size() > AV_NUM_DATA_POINTERS) {
    for (const std::size_t range : used) {
      map.ranges[range].is_in_band = true;
    }
  }
}

void refuse_hardware(const AVFrame& frame, const std::string& source) {
  const AVPixFmtDescriptor* descriptor =
      frame.nb_samples > 0 ? nullptr : av_pix_fmt_desc_get(av::pixel_format_of(frame.format));
  if (frame.hw_frames_ctx != nullptr || (descriptor != nullptr && (descriptor->flags & AV_PIX_FMT_FLAG_HWACCEL) != 0)) {
    throw Error(ErrorKind::kUnsupportedFormat, kAction,
                "they are in memory of a device (" + av::pixel_format_name(frame.format) +
                    "), which other processes do not see; the filters hwdownload,format=nv12 bring them to the CPU's")
        .in(source);
  }
}

}  // namespace

std::vector<Extent> extents_of(const AVFrame& frame, MediaType type) {
  return type == MediaType::kAudio ? sample_extents(frame) : picture_extents(frame);
}

PlaneMap map_planes(const Frames& frames) {
  std::vector<MemoryRange> planes;
  std::vector<std::size_t> num_planes;
  for (const auto& frame : frames.frames) {
    refuse_hardware(*frame, frames.source);
    const std::vector<Extent> extents = extents_of(*frame, frames.type);
    if (extents.empty()) {
      throw Error(ErrorKind::kMedia, kAction, "the memory layout of their format is unknown").in(frames.source);
    }
    for (std::size_t i = 0; i < extents.size(); ++i) {
      planes.push_back(range_of(*frame, i, extents[i]));
    }
    num_planes.push_back(extents.size());
  }
  PlaneMap map = merge(planes);
  std::size_t first = 0;
  for (const std::size_t count : num_planes) {
    move_in_band_where_too_many(map, first, count);
    first += count;
  }
  for (const MemoryRange& plane : planes) {
    map.begins.push_back(plane.begin);
  }
  map.num_planes = std::move(num_planes);
  std::size_t num_out_of_band = 0;
  for (MemoryRange& range : map.ranges) {
    if (range.is_in_band) {
      range.offset = map.in_band_size;
      map.in_band_size += round_up(range.end - range.begin + kOverread, kAlignment);
    } else {
      range.buffer = ++num_out_of_band;
    }
  }
  return map;
}

}  // namespace spdl
