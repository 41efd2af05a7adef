#include "media/decode_array.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "media/decode.h"
#include "media/picture_layout.h"
#include "media/planar_floats.h"
#include "media/scaler.h"

namespace spdl {
namespace {

// How many pictures there will be is known from the packets, which may be wrong or damaged; more than this is asked for
// only once pictures have come out.
constexpr std::size_t kMostAtFirst = std::size_t{1} << 30;

// One plane, whose rows are one behind the other.
bool is_packed(AVPixelFormat format) noexcept {
  return format == AV_PIX_FMT_RGB24 || format == AV_PIX_FMT_BGR24 || format == AV_PIX_FMT_RGBA ||
         format == AV_PIX_FMT_GRAY8;
}

// The array that pictures are put into, which grows where there are more of them than expected.
class PictureArray {
 public:
  PictureArray(ScaleTarget target, std::size_t num_expected)
      : format_(target.format), scaler_(std::move(target)), num_expected_(num_expected) {}

  // False for a picture that has to go another way, or that does not fit to those before it.
  bool put(const AVFrame& frame) {
    if (!scaler_.takes(frame)) {
      return false;
    }
    const int width = scaler_.width_of(frame);
    const int height = scaler_.height_of(frame);
    if (count_ == 0) {
      width_ = width;
      height_ = height;
      layout_ = picture_layout(format_, width, height);
      reserve(std::clamp<std::size_t>(kMostAtFirst / layout_.num_bytes(), 1, std::max<std::size_t>(num_expected_, 1)));
    } else if (width != width_ || height != height_) {
      return false;
    } else if (count_ == room_) {
      reserve(2 * room_);
    }
    scaler_.scale_into(frame, memory_.data() + count_ * layout_.num_bytes(),
                       static_cast<std::ptrdiff_t>(layout_.planes[0].row_bytes));
    ++count_;
    return true;
  }

  std::optional<DecodedArray> finish() && {
    if (count_ == 0) {
      return std::nullopt;
    }
    ArrayLayout layout{layout_.shape, layout_.type, count_ * layout_.num_bytes()};
    layout.shape.insert(layout.shape.begin(), static_cast<std::ptrdiff_t>(count_));
    return DecodedArray{std::move(layout), std::move(memory_)};
  }

 private:
  void reserve(std::size_t room) {
    if (room > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / layout_.num_bytes()) {
      throw std::bad_alloc();
    }
    Buffer larger(room * layout_.num_bytes());
    if (count_ > 0) {
      std::memcpy(larger.data(), memory_.data(), count_ * layout_.num_bytes());
    }
    memory_ = std::move(larger);
    room_ = room;
  }

  AVPixelFormat format_;
  Scaler scaler_;
  std::size_t num_expected_;
  PictureLayout layout_;
  int width_ = 0, height_ = 0;
  std::size_t count_ = 0, room_ = 0;
  Buffer memory_;
};

// None, with the packets as they were, if this fast path does not apply.
std::optional<DecodedArray> decode_pictures(const Packets& packets, const std::optional<std::string>& filter,
                                            const DecodeConfig& config) {
  if (packets.type != MediaType::kVideo || !filter) {
    return std::nullopt;
  }
  std::optional<ScaleTarget> target = parse_scale(*filter);
  if (!target || !is_packed(target->format)) {
    return std::nullopt;
  }
  WindowDecoder decoder(codec_of(packets), config, packets.source, packets.stream_index);
  decoder.inspect(packets);
  PictureArray array(std::move(*target), num_in_window(packets));
  const auto take = [&](av::FramePtr frame) { return array.put(*frame); };
  for (const auto& packet : packets.packets) {
    if (!decoder.decode(packet.get(), packets.window, take)) {
      return std::nullopt;
    }
  }
  if (!decoder.decode(nullptr, packets.window, take)) {
    return std::nullopt;
  }
  return std::move(array).finish();
}

// The same for samples as planar floats, one row a channel. Rows lie as far apart as samples are expected, and are
// moved together at the end. Frames go back to the decoder at once: keeping them until the end costs more in fresh
// memory than decoding does.
class SampleArray {
 public:
  explicit SampleArray(std::size_t num_expected) : num_expected_(num_expected) {}

  bool put(const AVFrame& frame) {
    if (!can_be_planar_floats(frame)) {
      return false;
    }
    const auto num_channels = static_cast<std::size_t>(frame.ch_layout.nb_channels);
    const auto count = static_cast<std::size_t>(frame.nb_samples);
    if (count_ == 0) {
      num_channels_ = num_channels;
      channels_.resize(num_channels);
      format_ = frame.format;
      sample_rate_ = frame.sample_rate;
      reserve(std::max(count, std::min(num_expected_, kMostAtFirst / (num_channels * sizeof(float)))));
    } else if (num_channels != num_channels_ || frame.format != format_ || frame.sample_rate != sample_rate_) {
      return false;
    } else if (count > room_ - count_) {
      reserve(2 * room_ + count);
    }
    for (std::size_t channel = 0; channel < num_channels_; ++channel) {
      channels_[channel] = reinterpret_cast<std::uint8_t*>(floats() + channel * room_ + count_);
    }
    write_planar_floats(frame, channels_.data());
    count_ += count;
    return true;
  }

  std::optional<DecodedArray> finish() && {
    if (count_ == 0) {
      return std::nullopt;
    }
    for (std::size_t channel = 1; channel < num_channels_ && room_ != count_; ++channel) {
      std::memmove(floats() + channel * count_, floats() + channel * room_, count_ * sizeof(float));
    }
    ArrayLayout layout{{static_cast<std::ptrdiff_t>(num_channels_), static_cast<std::ptrdiff_t>(count_)},
                       kFloat32,
                       num_channels_ * count_ * sizeof(float)};
    return DecodedArray{std::move(layout), std::move(memory_)};
  }

 private:
  float* floats() noexcept { return reinterpret_cast<float*>(memory_.data()); }

  void reserve(std::size_t room) {
    if (room > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / (num_channels_ * sizeof(float))) {
      throw std::bad_alloc();
    }
    Buffer larger(num_channels_ * room * sizeof(float));
    for (std::size_t channel = 0; channel < num_channels_ && count_ > 0; ++channel) {
      std::memcpy(larger.data() + channel * room * sizeof(float), floats() + channel * room_, count_ * sizeof(float));
    }
    memory_ = std::move(larger);
    room_ = room;
  }

  std::size_t num_expected_;
  std::size_t num_channels_ = 0;
  std::vector<std::uint8_t*> channels_;  // where the next samples go
  int format_ = -1, sample_rate_ = 0;
  std::size_t count_ = 0, room_ = 0;  // samples of each channel
  Buffer memory_;
};

// Samples of each channel, as far as packets tell.
std::size_t num_expected_samples(const Packets& packets, int sample_rate) {
  double seconds = 0;
  for (const auto& packet : packets.packets) {
    seconds += to_seconds(std::max<std::int64_t>(packet->duration, 0), packets.time_base.num, packets.time_base.den);
  }
  constexpr double kMost = 1e12;
  return static_cast<std::size_t>(std::clamp(std::ceil(seconds * sample_rate), 0.0, kMost));
}

std::optional<DecodedArray> decode_samples(const Packets& packets, const std::optional<std::string>& filter,
                                           const DecodeConfig& config, SoundCut cut) {
  if (packets.type != MediaType::kAudio || !filter || !asks_for_planar_floats(*filter)) {
    return std::nullopt;
  }
  const Codec& codec = codec_of(packets);
  WindowDecoder decoder(codec, config, packets.source, packets.stream_index);
  SampleArray array(num_expected_samples(packets, codec.parameters->sample_rate));
  std::optional<SampleWindow> window;
  if ((packets.window && cut == SoundCut::kBehindFilter) || packets.sound.length) {
    window.emplace(codec);
    window->set(packets);
  }
  bool is_complete = false;  // as far as the window goes
  const auto take = [&](av::FramePtr frame) {
    if (window) {
      const int frame_size = decoder.frame_size(*frame);
      frame = window->place(std::move(frame), frame_size);
      is_complete = frame != nullptr && window->is_behind(*frame);
      frame = is_complete || frame == nullptr ? nullptr : window->keep(std::move(frame), window->unit());
    }
    return !is_complete && (frame == nullptr || array.put(*frame));
  };
  for (const auto& packet : packets.packets) {
    if (!decoder.decode(packet.get(), packets.window, take)) {
      break;
    }
    if (&packet == &packets.packets.back()) {
      is_complete = decoder.decode(nullptr, packets.window, take) || is_complete;
    }
  }
  return is_complete ? std::move(array).finish() : std::nullopt;
}

std::string text_of(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", seconds);
  return text;
}

}  // namespace

DecodedArray decode_array(Packets packets, const std::optional<std::string>& filter, const DecodeConfig& config,
                          SoundCut cut) {
  if (std::optional<DecodedArray> array = decode_pictures(packets, filter, config)) {
    return std::move(*array);
  }
  if (std::optional<DecodedArray> array = decode_samples(packets, filter, config, cut)) {
    return std::move(*array);
  }
  const std::optional<TimeWindow> window = packets.window;
  const Frames frames = decode_packets(std::move(packets), filter, config, std::nullopt, cut);
  if (frames.frames.empty() && window) {
    const char* what = frames.type == MediaType::kAudio ? "samples" : "pictures";
    throw Error(ErrorKind::kConvert, "load a window of",
                std::string("there are no ") + what + " in [" + text_of(window->start) + ", " + text_of(window->end) +
                    ") seconds")
        .in(frames.source);
  }
  DecodedArray array{layout_of(frames), {}};
  array.memory.reserve(std::max<std::size_t>(array.layout.num_bytes, 1));
  copy_frames(frames, array.memory.data());
  return array;
}

}  // namespace spdl
