#include "media/decoder.h"

extern "C" {
#include <libavutil/mem.h>
#include <libavutil/opt.h>
}

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "av/check.h"
#include "av/colours.h"
#include "av/log.h"
#include "base/buffer.h"
#include "base/sniff.h"
#include "base/time_window.h"
#include "image/batch.h"
#include "image/bytes.h"
#include "image/header.h"
#include "image/tiff.h"
#include "media/entry_point.h"
#include "media/pixel_limit.h"
#include "media/still_decoder.h"
#include "media/still_frame.h"

namespace spdl {
namespace {

constexpr const char* kAction = "decode";
constexpr const char* kMaxPixelsOption = "max_pixels";

// Decoders that mark each picture in which they had to conceal damage, so that they need not be told to stop at it. If
// they are, they also stop at what is missing before a key frame that is not a clean cut (open groups of pictures).
// Measured with bits flipped at random: for these, `explode` finds nothing that the marks do not tell.
bool marks_damage(AVCodecID id) noexcept {
  switch (id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
      return true;
    default:
      return false;
  }
}

// Whether packets can be given twice: no picture is built on what another packet left.
bool stands_alone(const AVCodecContext& context) noexcept {
  const AVCodecDescriptor* descriptor = context.codec_descriptor;
  return context.codec_type == AVMEDIA_TYPE_AUDIO ||
         (descriptor != nullptr && (descriptor->props & AV_CODEC_PROP_INTRA_ONLY) != 0);
}

// Where "nothing refers to it" is written in the picture itself, and holds for all that follows. (In HEVC it holds for
// the same temporal layer only.)
bool can_skip(AVCodecID id) noexcept { return marks_damage(id); }

const AVCodec& find_decoder(const AVCodecParameters& parameters, const DecodeConfig& config, const std::string& source) {
  const char* wanted = avcodec_get_name(parameters.codec_id);
  if (!config.decoder) {
    const AVCodec* decoder = avcodec_find_decoder(parameters.codec_id);
    if (decoder == nullptr) {
      throw Error(ErrorKind::kDecode, kAction, std::string("this FFmpeg has no decoder for ") + wanted).in(source);
    }
    return *decoder;
  }
  const AVCodec* decoder = avcodec_find_decoder_by_name(config.decoder->c_str());
  if (decoder == nullptr) {
    throw Error(ErrorKind::kDecode, kAction, "this FFmpeg has no decoder '" + *config.decoder + "'").in(source);
  }
  if (decoder->id != parameters.codec_id) {
    throw Error(ErrorKind::kDecode, kAction,
                "the decoder '" + *config.decoder + "' is for " + avcodec_get_name(decoder->id) + ", the stream is " +
                    wanted)
        .in(source);
  }
  return *decoder;
}

// A TIFF with the fields that matter to its pixels. Told to stop at damage, the decoder stops at fields that it does not
// know, too; the others it puts into the picture's metadata, so they are taken out only where they are in the way.
av::PacketPtr without_other_fields(const AVPacket& packet) {
  Buffer scratch;
  const Bytes bytes = spdl::without_other_fields(bytes_of(packet), scratch);
  av::PacketPtr changed = av::new_packet();
  av::check(av_new_packet(changed.get(), static_cast<int>(bytes.size())), ErrorKind::kDecode, kAction);
  std::memcpy(changed->data, bytes.data(), bytes.size());
  av::check(av_packet_copy_props(changed.get(), &packet), ErrorKind::kDecode, kAction);
  return changed;
}

std::string time_text(double seconds) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.3f s", seconds);
  return text;
}

}  // namespace

const Codec& codec_of(const Packets& packets) {
  if (packets.codec == nullptr) {
    throw Error(ErrorKind::kNoCodec, kAction,
                "the packets carry no codec, as those of streaming have none; give them to a Decoder made with the"
                " demuxer's codec")
        .in(packets.source);
  }
  return *packets.codec;
}

RawDecoder::RawDecoder(const Codec& codec, const DecodeConfig& config, std::string source, int stream_index)
    : config_(config),
      frame_rate_(codec.frame_rate),
      source_(std::move(source)),
      stream_index_(stream_index),
      time_base_(codec.time_base),
      tolerates_(config.tolerate_errors) {
  open(*codec.parameters);
}

bool RawDecoder::begins_anew(const AVPacket& packet) const noexcept {
  const AVCodecID id = context_->codec_id;
  return (id == AV_CODEC_ID_VORBIS || id == AV_CODEC_ID_OPUS || id == AV_CODEC_ID_FLAC) && packet.size > 0 &&
         av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, nullptr) != nullptr;
}

void RawDecoder::begin_anew(const AVPacket& packet) {
  std::size_t size = 0;
  const std::uint8_t* extradata = av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, &size);
  const auto parameters = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  av::check(avcodec_parameters_from_context(parameters.get(), context_.get()), ErrorKind::kDecode, kAction, source_);
  av_freep(&parameters->extradata);
  parameters->extradata = static_cast<std::uint8_t*>(av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE));
  if (parameters->extradata == nullptr) {
    throw std::bad_alloc();
  }
  std::memcpy(parameters->extradata, extradata, size);
  parameters->extradata_size = static_cast<int>(size);
  flac_.reset();
  open(*parameters);
  is_fresh_ = true;
  had_key_ = had_key_before_ = false;
  had_entry_ = false;
  left_out_.clear();
  start_.reset();
}

void RawDecoder::open(const AVCodecParameters& parameters) {
  const DecodeConfig& config = config_;
  const AVCodec& decoder = find_decoder(parameters, config, source_);
  context_ = av::own<av::CodecContextPtr>(avcodec_alloc_context3(&decoder));
  av::mark_as_ours(*context_);
  av::check(avcodec_parameters_to_context(context_.get(), &parameters), ErrorKind::kDecode, kAction, source_);
  context_->pkt_timebase = time_base_;
  if (frame_rate_.num > 0 && frame_rate_.den > 0) {
    context_->framerate = frame_rate_;
  }
  // A pipeline has its parallelism elsewhere. Both are what options may override.
  context_->thread_count = 1;
  if (!marks_damage(decoder.id)) {
    context_->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK;
  }
  can_skip_ = can_skip(decoder.id) && parameters.field_order <= AV_FIELD_PROGRESSIVE;  // a packet may be one field

  av::Options own_options = config.options;
  set_max_pixels(own_options);
  expect_size(parameters.width, parameters.height);

  av::Dictionary options(own_options);
  const int code = avcodec_open2(context_.get(), &decoder, options.address());
  if (code < 0) {
    throw av::make_error(ErrorKind::kDecode, code, kAction, source_,
                         std::string("the decoder '") + decoder.name + "' does not open with these parameters and options");
  }
  options.expect_all_used(ErrorKind::kDecode, kAction, source_);
  recognition_ = context_->err_recognition;
  if (!config.decoder) {
    flac_ = FlacPackets::of(*context_, config.options);
  }
  webp_.reset();
  if (decoder.id == AV_CODEC_ID_WEBP) {
    webp_.emplace(*context_);
  }
}

// The decoder is told a larger number than the user, so that both refuse the same.
void RawDecoder::set_max_pixels(av::Options& options) {
  context_->max_pixels = kDefaultMaxPixels;
  if (const auto option = options.find(kMaxPixelsOption); option != options.end()) {
    const int code = av_opt_set(context_.get(), kMaxPixelsOption, option->second.c_str(), 0);
    if (code < 0) {
      throw av::make_error(ErrorKind::kDecode, code, kAction, source_, "max_pixels is not a number: '" + option->second + "'");
    }
    options.erase(option);
  }
  max_pixels_ = context_->max_pixels;
  context_->max_pixels = codec_max_pixels(max_pixels_);
}

void RawDecoder::expect_size(std::int64_t width, std::int64_t height) const {
  try {
    require_pixels(width, height, max_pixels_);
  } catch (Error& error) {
    error.source = source_;
    error.stream_index = stream_index_;
    throw;
  }
}

void RawDecoder::inspect(const Packets& packets) const {
  if (packets.type == MediaType::kAudio || packets.packets.size() != 1) {
    return;
  }
  const Bytes data = bytes_of(*packets.packets.front());
  const std::string_view format = sniff_format(data);
  if (const auto size = declared_size(format, data)) {
    expect_size(size->width, size->height);
  }
  try {
    expect_right_pixels(format, data, tolerates_);
  } catch (Error& error) {
    error.source = source_;
    error.stream_index = stream_index_;
    throw;
  }
}

void RawDecoder::set_origin(std::string source, int stream_index) {
  source_ = std::move(source);
  stream_index_ = stream_index;
}

void RawDecoder::restart() {
  avcodec_flush_buffers(context_.get());
  ready_.reset();
  if (webp_) {
    webp_->restart();
  }
  is_fresh_ = true;
  had_key_ = had_key_before_ = false;
  had_entry_ = false;
  left_out_.clear();
  start_.reset();
}

void RawDecoder::skip_unreferenced(bool skip) noexcept {
  if (can_skip_) {
    context_->skip_frame = skip ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
  }
}

bool RawDecoder::send(const AVPacket* packet) {
  // Left out by an edit list. Decoders leave out the picture themselves, but for some where a packet is a picture.
  if (packet != nullptr && (packet->flags & AV_PKT_FLAG_DISCARD) != 0 && context_->codec_type == AVMEDIA_TYPE_VIDEO &&
      stands_alone(*context_)) {
    return true;
  }
  if (packet != nullptr && is_before_entry(*packet)) {
    return true;
  }
  if (packet != nullptr && is_fresh_) {
    is_fresh_ = false;
    if ((packet->flags & AV_PKT_FLAG_KEY) != 0 && packet->pts != AV_NOPTS_VALUE) {
      start_ = packet->pts;
    }
  }
  if (packet != nullptr && (packet->flags & AV_PKT_FLAG_KEY) != 0) {
    had_key_before_ = had_key_;
    had_key_ = true;
  }
  if (packet != nullptr && packet->size == 0 && context_->codec_type == AVMEDIA_TYPE_AUDIO) {
    return true;  // it carries only side data, as the last one of FLAC in NUT, and decoders refuse it
  }
  if (packet != nullptr && (packet->flags & AV_PKT_FLAG_DISCARD) != 0 && context_->codec_id == AV_CODEC_ID_AV1) {
    left_out_.push_back(packet->pts);
  }
  if (packet != nullptr && webp_ && WebpAnimation::is_frame(*packet)) {
    compose(*packet);
    return true;
  }
  context_->err_recognition = recognition_;
  if (packet != nullptr && flac_ &&
      ((packet->flags & AV_PKT_FLAG_DISCARD) != 0 ||
       av_packet_get_side_data(packet, AV_PKT_DATA_SKIP_SAMPLES, nullptr) != nullptr)) {
    flac_.reset();  // libav's decoder leaves out what the container says, of this packet and of those behind it
  }
  if (packet != nullptr && flac_ && (ready_ = flac_->decode(*packet)) != nullptr) {
    return true;
  }
  const av::LogCapture said;
  int code = avcodec_send_packet(context_.get(), packet);
  if (code == AVERROR(EAGAIN)) {
    return false;
  }
  if (code == AVERROR_INVALIDDATA && packet != nullptr && context_->codec_id == AV_CODEC_ID_TIFF) {
    code = avcodec_send_packet(context_.get(), without_other_fields(*packet).get());
  }
  if (code == AVERROR_INVALIDDATA && is_later_key(packet)) {
    is_refused_key_ = true;
    return true;
  }
  if (code < 0 && code != AVERROR_EOF && !lacks_key(packet)) {
    refuse(code, packet != nullptr ? packet->pts : AV_NOPTS_VALUE, "packet", code == AVERROR(EPERM) ? said.text() : "");
    if (packet != nullptr && stands_alone(*context_)) {
      // Tolerated: a part of it may be better than nothing.
      context_->err_recognition = 0;
      avcodec_send_packet(context_.get(), packet);
    }
  }
  return true;
}

// A frame of an animated WebP.
void RawDecoder::compose(const AVPacket& packet) {
  if (config_.decoder) {
    throw Error(ErrorKind::kDecode, kAction,
                "it is an animated WebP, which is composed by libwebp and not by the decoder '" + *config_.decoder +
                    "': name no decoder")
        .in(source_)
        .at(stream_index_, {});
  }
  if (!webp_->can_compose(packet)) {
    return;
  }
  try {
    ready_ = webp_->decode(packet);
  } catch (Error& error) {
    error.source = source_;
    throw;
  }
  if (ready_ == nullptr) {
    refuse(AVERROR_INVALIDDATA, packet.pts, "packet");
  }
}

av::FramePtr RawDecoder::receive(const AVPacket* packet, bool& is_dry) {
  if (spare_ == nullptr) {
    spare_ = av::new_frame();
  }
  int code = 0;
  if (ready_ != nullptr) {
    spare_ = std::move(ready_);
  } else {
    code = avcodec_receive_frame(context_.get(), spare_.get());
  }
  if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
    is_dry = true;
    return nullptr;
  }
  if (code < 0) {
    if (code == AVERROR_INVALIDDATA && is_later_key(packet)) {
      is_refused_key_ = true;
    } else if (!lacks_key(packet)) {
      refuse(code, packet != nullptr ? packet->pts : AV_NOPTS_VALUE, "packet");
    }
    return nullptr;
  }
  av::FramePtr frame = std::move(spare_);
  av::forget_unknown_colours(*frame);
  correct_still(*frame, context_->codec_id, packet != nullptr ? bytes_of(*packet) : Bytes{});
  expect_size(frame->width, frame->height);
  if (frame->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC && frame->ch_layout.nb_channels > 0) {
    // Files such as WAV tell the number only, and filters refuse channels without a place.
    av_channel_layout_default(&frame->ch_layout, frame->ch_layout.nb_channels);
  }
  // A picture has the time of its packet. Where libav takes that for wrong, it gives a decoding time, which depends on all
  // packets before: in joined files, and differently in a window.
  const bool has_own_time = context_->codec_type == AVMEDIA_TYPE_VIDEO && frame->pts != AV_NOPTS_VALUE;
  if (!has_own_time && frame->best_effort_timestamp != AV_NOPTS_VALUE) {
    frame->pts = frame->best_effort_timestamp;
  }
  if (is_left_out(frame->pts)) {
    return nullptr;
  }
  if ((frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame->decode_error_flags != 0) {
    if (is_leading(frame->pts)) {
      return nullptr;
    }
    refuse(AVERROR_INVALIDDATA, frame->pts, "frame");
  }
  return frame;
}

// A picture shown before the key frame that decoding started at may refer to what was before that. That it cannot be
// decoded is no damage.
bool RawDecoder::is_leading(std::int64_t pts) const noexcept { return start_ && pts != AV_NOPTS_VALUE && pts < *start_; }

bool RawDecoder::is_before_entry(const AVPacket& packet) noexcept {
  if (context_->codec_id != AV_CODEC_ID_HEVC || had_entry_) {
    return false;
  }
  const EntryKind kind =
      entry_kind(packet, context_->codec_id, {context_->extradata, static_cast<std::size_t>(context_->extradata_size)});
  had_entry_ = kind == EntryKind::kEntry;
  return kind == EntryKind::kOther;
}

bool RawDecoder::is_later_key(const AVPacket* packet) const noexcept {
  return packet != nullptr && (packet->flags & AV_PKT_FLAG_KEY) != 0 && had_key_before_ &&
         context_->codec_type == AVMEDIA_TYPE_VIDEO && !stands_alone(*context_);
}

bool RawDecoder::is_left_out(std::int64_t pts) noexcept {
  const auto found = std::ranges::find(left_out_, pts);
  if (found == left_out_.end()) {
    return false;
  }
  left_out_.erase(found);
  return true;
}

// That it cannot be decoded is no damage, either.
bool RawDecoder::lacks_key(const AVPacket* packet) const noexcept {
  return packet != nullptr && !had_key_ && context_->codec_type == AVMEDIA_TYPE_VIDEO && !stands_alone(*context_);
}

void RawDecoder::refuse(int code, std::int64_t pts, const char* what, const std::string& said) {
  if (is_leading(pts)) {
    return;
  }
  ++num_errors_;
  if (tolerates_) {
    return;
  }
  std::optional<double> seconds;
  std::string detail = std::string("damaged ") + what;
  if (pts != AV_NOPTS_VALUE && time_base_.den > 0) {
    seconds = to_seconds(pts, time_base_.num, time_base_.den);
    detail += " at " + time_text(*seconds);
  }
  detail += " of stream " + std::to_string(stream_index_) +
            " (with tolerate_errors=True, decoding goes on with what is left)" + (said.empty() ? "" : ": " + said);
  throw av::make_error(ErrorKind::kDecode, code, kAction, source_, detail).at(stream_index_, seconds);
}

}  // namespace spdl
