#include "media/encoder.h"

extern "C" {
#include <libavutil/mathematics.h>
}

#include <algorithm>

#include "av/check.h"
#include "av/compat.h"
#include "av/log.h"
#include "av/names.h"

namespace spdl {
namespace {

constexpr const char* kAction = "encode frames for";

std::string describe(MediaType type, int format, int width, int height, int num_channels, int sample_rate) {
  if (type == MediaType::kAudio) {
    return std::to_string(num_channels) + " channels of " + av::sample_format_name(format) + " at " +
           std::to_string(sample_rate) + " Hz";
  }
  return std::to_string(width) + "x" + std::to_string(height) + " " + av::pixel_format_name(format);
}

std::string in_seconds(std::int64_t ticks, AVRational time_base) {
  std::string text = std::to_string(to_seconds(ticks, time_base.num, time_base.den));
  return text + " s";
}

// Time stamps up to here can be added and subtracted; a thousand years of nanoseconds are less.
constexpr std::int64_t kMostTicks = std::int64_t{1} << 61;

// In ticks of `to`; none if the frame does not say, or says it in a unit that is not known.
std::optional<std::int64_t> pts_in(AVRational to, const AVFrame& frame, AVRational from, const std::string& destination) {
  if (frame.pts == AV_NOPTS_VALUE || from.num <= 0 || from.den <= 0) {
    return std::nullopt;
  }
  const std::int64_t pts = av_rescale_q(frame.pts, from, to);
  if (pts < -kMostTicks || pts > kMostTicks) {
    throw Error(ErrorKind::kEncode, kAction, "the time stamp " + std::to_string(frame.pts) + " is out of range")
        .in(destination);
  }
  return pts;
}

CodecPtr codec_of(const AVCodecContext& context, MediaType type) {
  const auto parameters = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  av::check(avcodec_parameters_from_context(parameters.get(), &context), ErrorKind::kEncode, kAction);
  return make_codec(type, *parameters, context.time_base, context.framerate);
}

}  // namespace

Encoder::Encoder(const AVCodec& encoder, const VideoEncodeConfig& config, const EncoderOptions& options)
    : Encoder(open_encoder(encoder, config, options), MediaType::kVideo, options) {}

Encoder::Encoder(const AVCodec& encoder, const AudioEncodeConfig& config, const EncoderOptions& options)
    : Encoder(open_encoder(encoder, config, options), MediaType::kAudio, options) {}

Encoder::Encoder(av::CodecContextPtr context, MediaType type, const EncoderOptions& options)
    : context_(std::move(context)),
      type_(type),
      destination_(options.destination),
      codec_(codec_of(*context_, type)) {
  if (frame_size() != 0) {
    queue_.emplace(*context_);
  }
}

int Encoder::frame_size() const noexcept {
  return (context_->codec->capabilities & AV_CODEC_CAP_VARIABLE_FRAME_SIZE) != 0 ? 0 : context_->frame_size;
}

Packets Encoder::encode(Frames frames) {
  if (is_flushed_) {
    throw Error(ErrorKind::kEncode, kAction, "the encoder was flushed; make a new one").in(destination_);
  }
  for (const auto& frame : frames.frames) {
    expect_fit(*frame, frames.type == MediaType::kAudio);
  }
  Packets out = no_packets();
  for (auto& frame : frames.frames) {
    if (type_ == MediaType::kAudio) {
      if (frame->nb_samples == 0) {
        continue;
      }
      // Containers with coarse ticks round time stamps: that is no gap.
      const bool is_known = frames.time_base.num > 0 && frames.time_base.den > 0;
      const std::int64_t tick = is_known ? av_rescale_q_rnd(1, frames.time_base, context_->time_base, AV_ROUND_UP) : 1;
      const auto pts = pts_in(context_->time_base, *frame, frames.time_base, destination_);
      encode_samples(std::move(frame), pts, std::max<std::int64_t>(tick, 1), out);
    } else {
      const std::int64_t duration = av::frame_duration(*frame);
      const bool is_timed = frames.type == MediaType::kVideo && frames.time_base.num > 0 && frames.time_base.den > 0;
      const std::int64_t ticks = is_timed ? av_rescale_q(duration, frames.time_base, context_->time_base) : 1;
      av::set_frame_duration(*frame, std::max<std::int64_t>(ticks, 1));
      encode_picture(*frame, is_timed ? pts_in(context_->time_base, *frame, frames.time_base, destination_) : std::nullopt, out);
    }
  }
  return out;
}

Packets Encoder::flush() {
  Packets out = no_packets();
  if (is_flushed_) {
    return out;
  }
  is_flushed_ = true;
  if (queue_) {
    if (const auto rest = queue_->pop_rest()) {
      send(rest.get(), out);
    }
  }
  send(nullptr, out);
  return out;
}

void Encoder::expect_fit(const AVFrame& frame, bool is_audio) const {
  const auto& wanted = *context_;
  const bool fits =
      is_audio == (type_ == MediaType::kAudio) &&
      (is_audio ? frame.format == wanted.sample_fmt && frame.ch_layout.nb_channels == wanted.ch_layout.nb_channels &&
                      frame.sample_rate == wanted.sample_rate
                : frame.format == wanted.pix_fmt && frame.width == wanted.width && frame.height == wanted.height);
  if (!fits) {
    throw Error(ErrorKind::kEncode, kAction,
                "the frames are " +
                    describe(is_audio ? MediaType::kAudio : MediaType::kVideo, frame.format, frame.width, frame.height,
                             frame.ch_layout.nb_channels, frame.sample_rate) +
                    ", and the encoder was made for " +
                    describe(type_, type_ == MediaType::kAudio ? int{wanted.sample_fmt} : int{wanted.pix_fmt},
                             wanted.width, wanted.height, wanted.ch_layout.nb_channels, wanted.sample_rate))
        .in(destination_);
  }
}

void Encoder::encode_picture(AVFrame& frame, std::optional<std::int64_t> pts, Packets& out) {
  frame.pts = pts.value_or(next_.value_or(0));
  if (next_ && frame.pts < *next_) {
    throw Error(ErrorKind::kEncode, kAction,
                "the frame at " + in_seconds(frame.pts, context_->time_base) + " must come after the one at " +
                    in_seconds(*next_ - 1, context_->time_base) + ", by one tick of the frame rate, " +
                    std::to_string(context_->framerate.num) + "/" + std::to_string(context_->framerate.den) +
                    ", at least; the filter `fps` makes such frames, and a higher frame_rate takes closer ones")
        .in(destination_);
  }
  next_ = frame.pts + 1;
  frame.time_base = context_->time_base;
  // What the decoder found is no order for the encoder.
  frame.pict_type = AV_PICTURE_TYPE_NONE;
  frame.quality = context_->global_quality;
  send(&frame, out);
}

void Encoder::encode_samples(av::FramePtr frame, std::optional<std::int64_t> pts, std::int64_t tolerance,
                             Packets& out) {
  const std::int64_t gap = pts && next_ ? *pts - *next_ : 0;
  if (gap < -tolerance) {
    throw Error(ErrorKind::kEncode, kAction,
                "the samples at " + in_seconds(*pts, context_->time_base) + " overlap those before, which last until " +
                    in_seconds(*next_, context_->time_base) + "; the filter `aresample=async=1` drops what overlaps")
        .in(destination_);
  }
  if (!next_ || gap > tolerance) {
    next_ = pts.value_or(0);
    if (queue_ && !queue_->empty()) {
      // An encoder takes whole frames, so the gap begins with silence.
      const int silence = static_cast<int>(std::min<std::int64_t>(queue_->num_missing(), gap));
      queue_->push_silence(silence);
      if (const auto whole = queue_->pop()) {
        send(whole.get(), out);
      }
    }
  }
  const std::int64_t start = *next_;
  next_ = start + frame->nb_samples;
  if (queue_ && !(queue_->empty() && frame->nb_samples == context_->frame_size)) {
    queue_->push(*frame, start);
    while (const auto whole = queue_->pop()) {
      send(whole.get(), out);
    }
    return;
  }
  frame->pts = start;
  frame->time_base = context_->time_base;
  av::set_frame_duration(*frame, frame->nb_samples);
  av::check(av_channel_layout_copy(&frame->ch_layout, &context_->ch_layout), ErrorKind::kEncode, kAction);
  send(frame.get(), out);
}

// Null: the end.
void Encoder::send(const AVFrame* frame, Packets& out) {
  const av::LogCapture said;
  av::check(avcodec_send_frame(context_.get(), frame), ErrorKind::kEncode, kAction, destination_, said);
  for (;;) {
    auto packet = av::new_packet();
    const int code = avcodec_receive_packet(context_.get(), packet.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
      return;
    }
    av::check(code, ErrorKind::kEncode, kAction, destination_, said);
    if (type_ == MediaType::kVideo && packet->duration == 0) {
      packet->duration = 1;
    }
    packet->time_base = context_->time_base;
    out.packets.push_back(std::move(packet));
  }
}

Packets Encoder::no_packets() const {
  Packets packets;
  packets.type = type_;
  packets.source = destination_;
  packets.time_base = context_->time_base;
  packets.codec = codec_;
  return packets;
}

}  // namespace spdl
