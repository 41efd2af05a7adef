#include "media/clip.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/scratch.h"
#include "base/splitmix.h"
#include "base/time_window.h"
#include "image/renderer.h"
#include "media/picture_times.h"
#include "media/planes.h"
#include "media/sample.h"

namespace spdl {
namespace {

struct Workspace {
  PlaneMaker planes;
  Renderer renderer;

  void trim() noexcept {
    planes.trim(kKeepBytes);
    renderer.trim(kKeepBytes);
  }
};

std::string text_of(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", seconds);
  return text;
}

// From the first picture of a clip to its last one.
std::int64_t span_of(const ClipRequest& request) {
  std::int64_t span = 0;
  if (__builtin_mul_overflow(request.num_frames - 1, request.stride, &span)) {
    span = std::numeric_limits<std::int64_t>::max() / 2;
  }
  return std::min(span, std::numeric_limits<std::int64_t>::max() / 2) + 1;
}

// `index_at(seconds)`: of the picture that is displayed then; negative for none. `extent`: when pictures are displayed.
template <class IndexAt>
std::int64_t first_of(const ClipRequest& request, std::int64_t count, const std::string& source, const TimeWindow& extent,
                      IndexAt index_at) {
  const std::int64_t places = std::max<std::int64_t>(count - span_of(request) + 1, 1);
  switch (request.place) {
    case ClipPlace::kRandom: {
      const auto chosen = static_cast<std::int64_t>(start_share(request.seed) * static_cast<double>(places));
      return std::min(chosen, places - 1);
    }
    case ClipPlace::kMiddle:
      return (places - 1) / 2;
    case ClipPlace::kTime:
      break;
  }
  const std::int64_t index = index_at(request.time);
  if (index < 0) {
    throw Error(ErrorKind::kConvert, "load a clip of",
                "no picture is displayed at " + text_of(request.time) + " seconds; it has pictures from " +
                    text_of(extent.start) + " to " + text_of(extent.end))
        .in(source);
  }
  return index;
}

// The pictures of a clip, by their index: ascending, without those that come again at the end.
std::vector<std::int64_t> pictures_of(const ClipRequest& request, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> indices;
  for (std::int64_t index = first; index < count && std::ssize(indices) < request.num_frames;) {
    indices.push_back(index);
    if (__builtin_add_overflow(index, request.stride, &index)) {
      break;
    }
  }
  return indices;
}

class ClipWriter {
 public:
  ClipWriter(const ClipRequest& request, Orientation orientation, std::int64_t length, std::uint8_t* slot)
      : request_(request), orientation_(orientation), is_there_(static_cast<std::size_t>(length)), slot_(slot) {}

  // Renders the picture at that position.
  void put(std::size_t position, const AVFrame& frame) {
    const Transform& transform = request_.transform;
    const ImageRequest request{transform, request_.seed, nullptr, request_.max_pixels};
    const bool swaps = swaps_sides(orientation_);
    const Plan plan = request.plan(swaps ? frame.width : frame.height, swaps ? frame.height : frame.width);
    if (std::ranges::none_of(is_there_, [](bool is_there) { return is_there; })) {
      plan_ = plan;
    }
    const PlanesWanted wanted = planes_wanted(transform, plan);
    const bool is_rgb = transform.color == Color::kRgb || transform.color == Color::kBgr;
    const Picture picture = is_rgb ? workspace_->planes.view(frame, wanted) : workspace_->planes.make(frame, wanted);
    workspace_->renderer.render(picture, orientation_, plan, transform, slot_ + offset(position), plane_stride());
    is_there_[position] = true;
  }

  // Repeats pictures behind the last one, and where one is missing: the one before it, or the first there is.
  void fill() {
    const auto found = std::ranges::find(is_there_, true);
    if (found == is_there_.end()) {
      throw Error(ErrorKind::kDecode, "decode", "none of the pictures of the clip could be decoded");
    }
    const auto first = static_cast<std::size_t>(found - is_there_.begin());
    std::size_t last = first;
    for (std::size_t i = 0; i < static_cast<std::size_t>(request_.num_frames); ++i) {
      if (i < is_there_.size() && is_there_[i]) {
        last = i;
      } else {
        copy(last, i);
      }
    }
  }

  const Plan& plan() const noexcept { return plan_; }
  ~ClipWriter() { workspace_->trim(); }
  ClipWriter(const ClipWriter&) = delete;
  ClipWriter& operator=(const ClipWriter&) = delete;

 private:
  std::size_t offset(std::size_t index) const noexcept {
    const Transform& transform = request_.transform;
    const std::size_t bytes = transform.bytes_per_image();
    return index * (request_.has_channels_first ? bytes / static_cast<std::size_t>(num_channels(transform.color)) : bytes);
  }
  void copy(std::size_t from, std::size_t to) noexcept {
    const Transform& transform = request_.transform;
    const std::size_t planes =
        request_.has_channels_first ? static_cast<std::size_t>(num_channels(transform.color)) : 1;
    const std::size_t bytes = transform.bytes_per_image() / planes;
    const std::size_t distance = plane_stride() * static_cast<std::size_t>(transform.element.size);
    for (std::size_t i = 0; i < planes; ++i) {
      std::memcpy(slot_ + i * distance + offset(to), slot_ + i * distance + offset(from), bytes);
    }
  }
  std::size_t plane_stride() const noexcept {
    const Transform& transform = request_.transform;
    return request_.has_channels_first ? static_cast<std::size_t>(request_.num_frames) *
                                             static_cast<std::size_t>(transform.height) *
                                             static_cast<std::size_t>(transform.width)
                                       : 0;
  }

  const ClipRequest& request_;
  Orientation orientation_;
  std::vector<bool> is_there_;  // of the pictures of the video
  std::uint8_t* slot_;
  Plan plan_;
  Scratch<Workspace> workspace_;
};

// What the pictures that a decoder keeps take, and the planes made of one.
MemoryBudget::Lease take_memory(const Packets& packets, std::int64_t max_pixels) noexcept {
  const AVCodecParameters& parameters = *packets.codec->parameters;
  constexpr std::int64_t kBytesPerPixel = 12;
  if (parameters.width < 1 || parameters.height < 1) {
    return {};
  }
  // A header may state any size; the decoder refuses those with more pixels.
  const std::int64_t pixels = std::min(std::int64_t{parameters.width} * parameters.height, max_pixels);
  return memory_budget().take(static_cast<std::size_t>(pixels * kBytesPerPixel));
}

DecodeConfig config_of(const ClipRequest& request) {
  DecodeConfig config = request.decode;
  config.options.insert({"max_pixels", std::to_string(request.max_pixels)});  // unless it is there
  return config;
}

// `indices`: of pictures among those of the packets, ascending. None if there was no picture for one, other than for
// tolerated errors.
std::optional<Clip> render(Demuxer& demuxer, const ClipRequest& request, const Packets& packets, SampleBy by,
                           const std::vector<std::size_t>& indices, std::uint8_t* slot) {
  const auto lease = take_memory(packets, request.max_pixels);
  const Orientation orientation =
      request.transform.orient ? demuxer.orientation(packets.stream_index) : Orientation::kUpright;
  ClipWriter writer(request, orientation, std::ssize(indices), slot);
  const Sampling sampling =
      decode_pictures_at(packets, indices, by, config_of(request),
                         [&](std::size_t position, av::FramePtr frame) { writer.put(position, *frame); });
  if (!sampling.is_complete && sampling.num_errors == 0) {
    return std::nullopt;
  }
  writer.fill();
  return Clip{writer.plan(), 0, std::ssize(indices)};
}

std::vector<std::size_t> behind(const std::vector<std::int64_t>& indices, std::int64_t first) {
  std::vector<std::size_t> moved;
  for (const std::int64_t index : indices) {
    moved.push_back(static_cast<std::size_t>(index - first));
  }
  return moved;
}

// By the container's index, without reading the packets before the clip; none if the packets tell otherwise.
std::optional<Clip> load_by_grid(Demuxer& demuxer, const ClipRequest& request, int stream,
                                 const PictureGrid& grid, std::uint8_t* slot) {
  const auto time_of = [&](std::int64_t index) {
    return to_seconds(grid.start + index * grid.step, grid.time_base.num, grid.time_base.den);
  };
  const auto index_at = [&](double seconds) -> std::int64_t {
    const std::int64_t tick = nearest_tick(seconds, grid.time_base.num, grid.time_base.den);
    const std::int64_t index = tick < grid.start ? -1 : (tick - grid.start) / grid.step;
    return index < grid.count ? index : -1;
  };
  const std::int64_t first = first_of(request, grid.count, demuxer.name(), {time_of(0), time_of(grid.count)}, index_at);
  const std::vector<std::int64_t> indices = pictures_of(request, first, grid.count);
  const std::int64_t last = indices.back();
  if (last - first + 1 == grid.count) {
    return std::nullopt;  // all packets are read
  }
  const TimeWindow window{time_of(first), time_of(last + 1)};
  const Packets packets = demuxer.demux(MediaType::kVideo, window, std::nullopt, stream);
  const auto times = times_by_packets(packets);
  if (!times || std::ssize(times->starts) != last - first + 1) {
    return std::nullopt;
  }
  for (std::int64_t i = first; i <= last; ++i) {
    if (times->starts[static_cast<std::size_t>(i - first)] != grid.start + i * grid.step) {
      return std::nullopt;
    }
  }
  std::optional<Clip> clip = render(demuxer, request, packets, SampleBy::kPackets, behind(indices, first), slot);
  if (clip) {
    clip->start = time_of(first);
  }
  return clip;
}

// None if packets told wrong.
std::optional<Clip> load_at(Demuxer& demuxer, const ClipRequest& request, const Packets& packets, SampleBy by,
                            const PictureTimes& times, std::uint8_t* slot) {
  const auto count = std::ssize(times.starts);
  if (count == 0) {
    throw Error(ErrorKind::kDecode, "decode", "it has no picture").in(packets.source).at(packets.stream_index, {});
  }
  const auto index_at = [&](double seconds) -> std::int64_t {
    const std::int64_t tick = nearest_tick(seconds, packets.time_base.num, packets.time_base.den);
    const auto index = times.index_at(tick);
    return index ? static_cast<std::int64_t>(*index) : -1;
  };
  const auto seconds_of = [&](std::int64_t tick) {
    return to_seconds(tick, packets.time_base.num, packets.time_base.den);
  };
  const TimeWindow extent{seconds_of(*std::ranges::min_element(times.starts)), seconds_of(times.end)};
  const std::int64_t first = first_of(request, count, packets.source, extent, index_at);
  auto clip = render(demuxer, request, packets, by, behind(pictures_of(request, first, count), 0), slot);
  if (clip) {
    clip->start = seconds_of(times.starts[static_cast<std::size_t>(first)]);
  }
  return clip;
}

Clip load_by_packets(Demuxer& demuxer, const ClipRequest& request, int stream, std::uint8_t* slot) {
  const Packets packets = demuxer.demux(MediaType::kVideo, std::nullopt, std::nullopt, stream);
  if (const auto times = times_by_packets(packets)) {
    if (auto clip = load_at(demuxer, request, packets, SampleBy::kPackets, *times, slot)) {
      return *std::move(clip);
    }
  }
  const PictureTimes times = times_by_decoding(packets, config_of(request));
  auto clip = load_at(demuxer, request, packets, SampleBy::kDecoding, times, slot);
  if (!clip) {
    throw Error(ErrorKind::kDecode, "decode", "it gave fewer pictures than before").in(packets.source).at(stream, {});
  }
  return *std::move(clip);
}

}  // namespace

Clip load_clip(Demuxer& demuxer, const ClipRequest& request, std::uint8_t* slot) {
  const int stream = demuxer.choose(MediaType::kVideo, request.stream);
  if (const auto grid = demuxer.picture_grid(stream)) {
    if (auto clip = load_by_grid(demuxer, request, stream, *grid, slot)) {
      return *std::move(clip);
    }
  }
  return load_by_packets(demuxer, request, stream, slot);
}

}  // namespace spdl
