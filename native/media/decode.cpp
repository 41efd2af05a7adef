#include "media/decode.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace spdl {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

}  // namespace

DecodeChain::DecodeChain(const Codec& codec, std::optional<std::string> filter, const DecodeConfig& config,
                         std::string source, int stream_index)
    : type_(codec.type),
      decoder_(codec, config, source, stream_index),
      filter_({codec.type, codec.time_base, codec.frame_rate}, std::move(filter), std::move(source)) {
  if (codec.type == MediaType::kAudio) {
    sound_.emplace(codec);
  }
}

void DecodeChain::set_sound(const Packets& packets, SoundCut cut) noexcept {
  if (sound_) {
    sound_->set(packets);
    cut_ = cut;
  }
}

bool DecodeChain::decode(const AVPacket* packet, const std::optional<TimeWindow>& window, std::size_t most,
                         std::vector<av::FramePtr>& out) {
  const bool wants_more = decoder_.decode(packet, window, [&](av::FramePtr frame) {
    filter(std::move(frame), out);
    return out.size() < most;
  });
  if (wants_more && packet == nullptr) {
    filter(nullptr, out);
  }
  return out.size() < most;
}

void DecodeChain::filter(av::FramePtr frame, std::vector<av::FramePtr>& out) {
  if (!sound_ || (!filter_.description() && cut_ == SoundCut::kByFilter)) {
    if (sound_ && frame != nullptr) {
      const std::int64_t pts = frame->pts;
      const int frame_size = decoder_.frame_size(*frame);
      frame = sound_->place(std::move(frame), frame_size);
      if (frame == nullptr) {
        return;
      }
      frame->pts = pts;
    }
    filter_.filter(std::move(frame), out);
    return;
  }
  if (frame != nullptr) {
    const int frame_size = decoder_.frame_size(*frame);
    frame = sound_->place(std::move(frame), frame_size);
    if (frame == nullptr) {
      return;
    }
    filter_.set_sound(sound_->unit(), sound_->window());
    if (!filter_.is_plain()) {
      frame = sound_->align(std::move(frame), *filter_.description());
      if (frame == nullptr) {
        return;
      }
    }
  }
  if (cut_ == SoundCut::kByFilter) {
    filter_.filter(std::move(frame), out);
    return;
  }
  std::vector<av::FramePtr> filtered;
  filter_.filter(std::move(frame), filtered);
  for (av::FramePtr& each : filtered) {
    if (av::FramePtr part = sound_->keep(std::move(each), filter_.time_base())) {
      out.push_back(std::move(part));
    }
  }
}

void DecodeChain::set_origin(const std::string& source, int stream_index) {
  decoder_.set_origin(source, stream_index);
  filter_.set_source(source);
}

Frames decode_packets(Packets packets, const std::optional<std::string>& filter, const DecodeConfig& config,
                      std::optional<std::size_t> num_frames, SoundCut cut) {
  DecodeChain chain(codec_of(packets), filter, config, packets.source, packets.stream_index);
  chain.set_sound(packets, cut);
  const bool is_image = packets.type == MediaType::kImage;
  const std::size_t most = is_image ? 1 : num_frames.value_or(kAll);
  chain.inspect(packets);
  Frames result;
  result.type = packets.type;
  result.source = packets.source;
  bool wants_more = most > 0;
  for (std::size_t i = 0; i < packets.packets.size() && wants_more; ++i) {
    wants_more = chain.decode(packets.packets[i].get(), packets.window, most, result.frames);
    packets.packets[i].reset();
  }
  if (wants_more) {
    chain.decode(nullptr, packets.window, most, result.frames);
  }
  if (result.frames.size() > most) {
    result.frames.resize(most);
  }
  if (is_image && result.frames.empty()) {
    throw Error(ErrorKind::kDecode, "decode", "the decoder returned no picture").in(packets.source).at(packets.stream_index, {});
  }
  result.time_base = chain.time_base();
  result.num_errors = chain.num_errors();
  return result;
}

StreamDecoder::StreamDecoder(const Codec& codec, std::optional<std::string> filter, const DecodeConfig& config)
    : chain_(codec, std::move(filter), config, {}, 0) {}

void StreamDecoder::expect_open(const std::string& source) const {
  if (is_ended_) {
    throw Error(ErrorKind::kClosed, "decode", "the decoder was flushed; make a new one for more packets").in(source);
  }
}

void StreamDecoder::fill() {
  const std::size_t enough = batch_size_.value_or(kAll);
  while (!queue_.empty() && ready_.size() < enough) {
    Packets& first = queue_.front();
    if (position_ == 0) {
      chain_.set_origin(first.source, first.stream_index);
      source_ = first.source;
      window_ = first.window;
      chain_.set_sound(first, SoundCut::kByFilter);
    }
    if (position_ < first.packets.size()) {
      const av::PacketPtr packet = std::move(first.packets[position_++]);
      chain_.decode(packet.get(), window_, kAll, ready_);
    } else {
      queue_.pop_front();
      position_ = 0;
    }
  }
  if (queue_.empty() && is_ended_ && !is_drained_ && ready_.size() < enough) {
    is_drained_ = true;
    chain_.decode(nullptr, window_, kAll, ready_);
  }
}

std::optional<Frames> StreamDecoder::next() {
  try {
    fill();
  } catch (...) {
    queue_.clear();
    position_ = 0;
    throw;
  }
  if (ready_.empty()) {
    return std::nullopt;
  }
  Frames batch;
  batch.type = chain_.type();
  batch.source = source_;
  batch.time_base = chain_.time_base();
  batch.num_errors = chain_.num_errors() - std::exchange(num_errors_told_, chain_.num_errors());
  const auto end = ready_.begin() + static_cast<std::ptrdiff_t>(std::min(ready_.size(), batch_size_.value_or(kAll)));
  batch.frames.assign(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
  ready_.erase(ready_.begin(), end);
  return batch;
}

}  // namespace spdl
