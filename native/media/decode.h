// Decoding with a window, a filter and a limit on the number of frames, all at once or incrementally.

#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "media/decoder.h"
#include "media/frame_filter.h"
#include "media/frames.h"
#include "media/packets.h"
#include "media/sample_time.h"

namespace spdl {

// A decoder that, for pictures, outputs only those inside a window. One thread per object.
class WindowDecoder {
 public:
  // Throws Error(kDecode).
  WindowDecoder(const Codec& codec, const DecodeConfig& config, std::string source, int stream_index)
      : time_base_(codec.time_base),
        has_pictures_(codec.type != MediaType::kAudio),
        decoder_(codec, config, std::move(source), stream_index) {}

  // As RawDecoder::decode does; null is the end.
  template <class Take>
  bool decode(const AVPacket* packet, const std::optional<TimeWindow>& window, Take&& take) {
    std::optional<TickWindow> cut;
    if (window && has_pictures_) {
      cut = TickWindow::of(*window, time_base_.num, time_base_.den);
      if (packet != nullptr) {
        decoder_.skip_unreferenced(packet->pts != AV_NOPTS_VALUE && !cut->contains(packet->pts));
      }
    }
    return decoder_.decode(packet, [&](av::FramePtr frame) {
      return (cut && !cut->contains(frame->pts != AV_NOPTS_VALUE ? frame->pts : 0)) || take(std::move(frame));
    });
  }

  // For sound: the number of samples in each packet; 0 if it varies or is not known.
  int frame_size(const AVFrame& frame) const noexcept {
    const AVCodecContext& context = decoder_.context();
    // Decoders that do not report it, for codecs whose packets almost always have one length.
    const bool is_equal = context.codec_id == AV_CODEC_ID_OPUS || context.codec_id == AV_CODEC_ID_FLAC;
    return context.frame_size == 0 && is_equal ? frame.nb_samples : context.frame_size;
  }

  void set_origin(const std::string& source, int stream_index) { decoder_.set_origin(source, stream_index); }
  // As RawDecoder does.
  void inspect(const Packets& packets) const { decoder_.inspect(packets); }
  int num_errors() const noexcept { return decoder_.num_errors(); }

 private:
  AVRational time_base_;
  bool has_pictures_;
  RawDecoder decoder_;
};

// Whether audio is cut to a window by the filter or after it.
enum class SoundCut { kByFilter, kBehindFilter };

// A decoder and the filter for its frames. Outputs only pictures inside the window; cuts samples as SoundCut says. One
// thread per object.
class DecodeChain {
 public:
  // Throws Error(kDecode).
  DecodeChain(const Codec& codec, std::optional<std::string> filter, const DecodeConfig& config, std::string source,
              int stream_index);

  // For audio; call before the first packet. Sets the window and the bounds of the packets, and how to cut to them.
  void set_sound(const Packets& packets, SoundCut cut) noexcept;

  // Decodes the packet (null: the end) and appends the output. False as soon as there are `most` frames in `out`.
  bool decode(const AVPacket* packet, const std::optional<TimeWindow>& window, std::size_t most,
              std::vector<av::FramePtr>& out);

  // Sets the origin that messages name from now on.
  void set_origin(const std::string& source, int stream_index);

  // As RawDecoder does.
  void inspect(const Packets& packets) const { decoder_.inspect(packets); }
  MediaType type() const noexcept { return type_; }
  AVRational time_base() const noexcept { return filter_.time_base(); }
  int num_errors() const noexcept { return decoder_.num_errors(); }

 private:
  void filter(av::FramePtr frame, std::vector<av::FramePtr>& out);

  MediaType type_;
  WindowDecoder decoder_;
  FrameFilter filter_;
  std::optional<SampleWindow> sound_;  // none: frames keep the time stamps that the decoder gives
  SoundCut cut_ = SoundCut::kByFilter;
};

// Decodes all packets. `filter`: a description of one input and one output; none: frames in the decoder's own format.
// Throws Error: kDecode, kImageTooLarge, kFilter, kNoCodec.
Frames decode_packets(Packets packets, const std::optional<std::string>& filter, const DecodeConfig& config,
                      std::optional<std::size_t> num_frames, SoundCut cut = SoundCut::kByFilter);

// Incremental decoding. All outputs together equal `decode_packets` of all inputs together. One thread per object.
class StreamDecoder {
 public:
  // Throws Error(kDecode).
  StreamDecoder(const Codec& codec, std::optional<std::string> filter, const DecodeConfig& config);

  // The largest number of frames in one batch; none: no limit.
  void set_batch_size(std::optional<std::size_t> size) noexcept { batch_size_ = size; }

  // Throws Error(kClosed) after the end. `source`: of the packets that the caller wants to push.
  void expect_open(const std::string& source) const;
  // Queues packets to decode. Not allowed after the end.
  void push(Packets packets) { queue_.push_back(std::move(packets)); }
  // Signals the end of the packets, so that the decoder outputs what it holds back. Further calls have no effect.
  void end() noexcept { is_ended_ = true; }

  // Decodes until a batch is full or the packets are used up. None if more packets are needed, or if all frames were
  // returned. Throws Error: kDecode, kFilter; packets not decoded by then are dropped.
  std::optional<Frames> next();

 private:
  void fill();

  DecodeChain chain_;
  std::optional<std::size_t> batch_size_;
  std::deque<Packets> queue_;
  std::size_t position_ = 0;  // in the first of the queue
  std::optional<TimeWindow> window_;
  std::string source_;
  std::vector<av::FramePtr> ready_;
  int num_errors_told_ = 0;
  bool is_ended_ = false;
  bool is_drained_ = false;
};

}  // namespace spdl
