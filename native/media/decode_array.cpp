#include "media/decode_array.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "media/decode.h"
#include "media/picture_layout.h"
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

// None, with the packets as they were, if the general way has to be taken.
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

}  // namespace

DecodedArray decode_array(Packets packets, const std::optional<std::string>& filter, const DecodeConfig& config) {
  if (std::optional<DecodedArray> array = decode_pictures(packets, filter, config)) {
    return std::move(*array);
  }
  const Frames frames = decode_packets(std::move(packets), filter, config, std::nullopt);
  DecodedArray array{layout_of(frames), {}};
  array.memory.reserve(std::max<std::size_t>(array.layout.num_bytes, 1));
  copy_frames(frames, array.memory.data());
  return array;
}

}  // namespace spdl
