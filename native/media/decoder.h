// From packets to frames.
//
// A decoder context of libav with the options that users can set. It outputs frames in the decoder's own format, in
// display order, with their best time stamp as `pts`. Filtering and windows are in decode.h. One thread per object.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/options.h"
#include "av/owners.h"
#include "media/codec.h"
#include "media/flac_packets.h"
#include "media/packets.h"
#include "media/webp_animation.h"

namespace spdl {

struct DecodeConfig {
  std::optional<std::string> decoder;  // by name, instead of the codec's default one
  av::Options options;                 // including "threads"; one thread by default
  bool tolerate_errors = false;
};

// The codec for decoding the packets. Throws Error(kNoCodec).
const Codec& codec_of(const Packets& packets);

class RawDecoder {
 public:
  // Throws Error: kDecode (unknown decoder or option, parameters that it refuses), kImageTooLarge.
  RawDecoder(const Codec& codec, const DecodeConfig& config, std::string source, int stream_index);

  // Sets the origin that messages name from now on.
  void set_origin(std::string source, int stream_index);

  // Decodes the packet (null: the end) and calls `take(av::FramePtr) -> bool` for each output frame. Returns false as
  // soon as `take` does: the next call outputs the remaining frames, and `restart` drops them. Damage throws
  // Error(kDecode) with stream and time. If errors are tolerated, they are counted, and the frames that the decoder can
  // still make are output.
  template <class Take>
  bool decode(const AVPacket* packet, Take&& take) {
    if (packet != nullptr && begins_anew(*packet)) {
      if (!decode(nullptr, take)) {
        return false;
      }
      begin_anew(*packet);
    }
    bool is_sent = false;
    while (true) {
      if (!is_sent) {
        is_sent = send(packet);
      }
      bool is_dry = false;
      while (!is_dry) {
        if (av::FramePtr frame = receive(packet, is_dry)) {
          if (!take(std::move(frame))) {
            return false;
          }
        }
      }
      if (is_refused_key_) {
        is_refused_key_ = false;
        if (!decode(nullptr, take)) {
          return false;
        }
        restart();
        is_sent = false;
        continue;
      }
      if (is_sent) {
        return true;
      }
    }
  }

  // Resets the decoder, so that decoding can continue at any key frame, also after the end.
  void restart();

  // From now on, the decoder may skip pictures that no other picture refers to. The others stay exact if
  // `can_skip_unreferenced`; otherwise this has no effect.
  void skip_unreferenced(bool skip) noexcept;
  bool can_skip_unreferenced() const noexcept { return can_skip_; }

  // Checks still images for faults that the decoder would not report: too large, ending early, or decoded with wrong
  // colours. Throws Error: kDecode, kImageTooLarge.
  void inspect(const Packets& packets) const;

  int num_errors() const noexcept { return num_errors_; }
  AVCodecContext& context() const noexcept { return *context_; }

 private:
  void open(const AVCodecParameters& parameters);
  // Whether it is the first packet of a further link of a chain of Ogg streams, each of which has a decoder of its own.
  bool begins_anew(const AVPacket& packet) const noexcept;
  void begin_anew(const AVPacket& packet);
  void set_max_pixels(av::Options& options);
  // Throws Error(kImageTooLarge) for more pixels than the option `max_pixels` allows, or its default.
  void expect_size(std::int64_t width, std::int64_t height) const;
  bool send(const AVPacket* packet);  // false: take out frames first
  void compose(const AVPacket& packet);
  av::FramePtr receive(const AVPacket* packet, bool& is_dry);
  bool is_leading(std::int64_t pts) const noexcept;
  // Whether a packet that is refused now comes before the first key frame, as in a stream that was cut.
  bool lacks_key(const AVPacket* packet) const noexcept;
  // Whether it is a picture of HEVC before the first one at which decoding may begin. FFmpeg before 7 makes up what such
  // pictures refer to.
  bool is_before_entry(const AVPacket& packet) noexcept;
  // Whether it is a key frame, and not what decoding has begun with.
  bool is_later_key(const AVPacket* packet) const noexcept;
  // Whether an edit list has left out the picture of a packet. Decoders of libav do so themselves, but those of AV1 do not.
  bool is_left_out(std::int64_t pts) noexcept;
  // `said`: FFmpeg's log about it, for when the code is not specific.
  void refuse(int code, std::int64_t pts, const char* what, const std::string& said = {});

  DecodeConfig config_;
  AVRational frame_rate_{0, 1};
  av::CodecContextPtr context_;
  av::FramePtr spare_;
  std::optional<FlacPackets> flac_;  // tries packets first
  std::optional<WebpAnimation> webp_;  // composes frames of an animated WebP
  av::FramePtr ready_;               // a frame from one of them
  std::string source_;
  int stream_index_ = 0;
  AVRational time_base_{0, 1};
  bool tolerates_ = false;
  std::int64_t max_pixels_ = 0;
  int recognition_ = 0;  // AVCodecContext::err_recognition for packets that are tried first
  bool can_skip_ = false;
  int num_errors_ = 0;
  // Whether a key frame was refused because of what was decoded before it, such as a picture with the same number: in files
  // that were joined at a key frame that does not say that a sequence begins (ITU-T H.265, CRA). It is tried again alone.
  bool is_refused_key_ = false;
  bool is_fresh_ = true;  // nothing was decoded yet, or since `restart`
  bool had_key_ = false;  // since then
  bool had_key_before_ = false;  // before the packet sent last
  bool had_entry_ = false;  // since then, of HEVC
  std::vector<std::int64_t> left_out_;  // pts of packets of AV1 that were sent
  std::optional<std::int64_t> start_;  // pts of the key frame that decoding started at
};

}  // namespace spdl
