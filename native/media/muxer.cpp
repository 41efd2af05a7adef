#include "media/muxer.h"

extern "C" {
#include <libavutil/mathematics.h>
#include <libavutil/opt.h>
}

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "av/log.h"
#include "media/container_codecs.h"
#include "media/source_io.h"
#include "media/webp_animation.h"

namespace spdl {
namespace {

constexpr const char* kAdd = "add a stream to";
constexpr const char* kOpen = "open the output";
constexpr const char* kWrite = "write packets to";
constexpr const char* kFinish = "finish";

av::OutputPtr new_output(const AVOutputFormat* format, const char* format_name, const std::string& destination,
                         const std::string& name) {
  AVFormatContext* context = nullptr;
  const int code = avformat_alloc_output_context2(&context, format, format_name, destination.c_str());
  if (context != nullptr) {
    return av::OutputPtr(context);
  }
  if (code == AVERROR(ENOMEM)) {
    throw av::make_error(ErrorKind::kMux, code, "find the format of", name);
  }
  throw Error(ErrorKind::kMux, "find the format of",
              format_name != nullptr ? "unknown format '" + std::string(format_name) + "'"
                                     : "no format has this extension; name one with `format`")
      .in(name);
}

// Keeps the tag if it means the same in the new container, as the ffmpeg tool does.
std::uint32_t tag_for(const AVOutputFormat& format, const AVCodecParameters& parameters) {
  unsigned int tag = 0;
  const bool is_free = format.codec_tag == nullptr ||
                       av_codec_get_id(format.codec_tag, parameters.codec_tag) == parameters.codec_id ||
                       av_codec_get_tag2(format.codec_tag, parameters.codec_id, &tag) == 0;
  return is_free ? parameters.codec_tag : 0;
}

bool has_option(const AVClass* kind, const std::string& key) {
  return kind != nullptr && av_opt_find(&kind, key.c_str(), nullptr, 0, AV_OPT_SEARCH_FAKE_OBJ) != nullptr;
}

}  // namespace

Muxer::Muxer(const std::string& destination, std::string name, const std::optional<std::string>& format)
    : context_(new_output(nullptr, format ? format->c_str() : nullptr, destination, name)), name_(std::move(name)) {}

Muxer Muxer::in_memory(std::string name) {
  const AVOutputFormat* format = av_guess_format(nullptr, name.c_str(), nullptr);
  // That one makes files of its own, and takes `%d` in names for numbers.
  if (format != nullptr && std::strcmp(format->name, "image2") == 0) {
    format = av_guess_format("image2pipe", nullptr, nullptr);
  }
  auto context = new_output(format, nullptr, name, name);
  Muxer muxer(std::move(context), std::move(name));
  muxer.memory_ = std::make_unique<av::MemoryOutput>();
  return muxer;
}

const AVOutputFormat& Muxer::format() const { return *context_->oformat; }

template <class Config>
Encoder Muxer::add_encode_stream(const Config& config, const std::optional<std::string>& encoder,
                                 const av::Options& options) {
  constexpr bool kIsAudio = std::is_same_v<Config, AudioEncodeConfig>;
  expect(State::kNew, kAdd);
  const AVOutputFormat& format = *context_->oformat;
  const AVCodec& found = find_encoder(kIsAudio ? MediaType::kAudio : MediaType::kVideo, encoder, format, name_);
  expect_format_takes(found.id, kAdd);
  Encoder made(found, config, EncoderOptions{options, (format.flags & AVFMT_GLOBALHEADER) != 0, name_});
  const Codec& codec = *made.codec();
  add_stream(*codec.parameters, codec.time_base, codec.frame_rate);
  return made;
}

template Encoder Muxer::add_encode_stream(const VideoEncodeConfig&, const std::optional<std::string>&,
                                          const av::Options&);
template Encoder Muxer::add_encode_stream(const AudioEncodeConfig&, const std::optional<std::string>&,
                                          const av::Options&);

void Muxer::add_remux_stream(const Codec& codec) {
  expect(State::kNew, kAdd);
  expect_format_takes(codec.parameters->codec_id, kAdd);
  AVStream& stream = add_stream(*codec.parameters, codec.time_base, codec.frame_rate);
  av::add_side_data(stream, codec.side_data);
  stream.codecpar->codec_tag = tag_for(*context_->oformat, *codec.parameters);
}

AVStream& Muxer::add_stream(const AVCodecParameters& parameters, AVRational time_base, AVRational frame_rate) {
  AVStream* stream = avformat_new_stream(context_.get(), nullptr);
  if (stream == nullptr) {
    throw std::bad_alloc();
  }
  av::check(avcodec_parameters_copy(stream->codecpar, &parameters), ErrorKind::kMux, kAdd, name_);
  stream->time_base = time_base;
  stream->avg_frame_rate = frame_rate;
  stream->sample_aspect_ratio = parameters.sample_aspect_ratio;
  return *stream;
}

void Muxer::open(const av::Options& options) {
  expect(State::kNew, kOpen);
  if (context_->nb_streams == 0) {
    throw Error(ErrorKind::kMux, kOpen, "it has no streams; add one first").in(name_);
  }
  if (memory_ && (context_->oformat->flags & AVFMT_NOFILE) != 0) {
    throw Error(ErrorKind::kMux, kOpen, "the format " + std::string(context_->oformat->name) + " is not a file format")
        .in(name_);
  }
  check_options(options);
  av::Dictionary dictionary(options);
  const av::LogCapture said;
  context_->interrupt_callback = interrupt_by(*watch_);
  // From here on, this object is of no more use if anything goes wrong.
  state_ = State::kClosed;
  if (memory_) {
    context_->flags |= AVFMT_FLAG_CUSTOM_IO;
    context_->pb = memory_->context();
  } else if ((context_->oformat->flags & AVFMT_NOFILE) == 0) {
    const int code = avio_open2(&context_->pb, context_->url, AVIO_FLAG_WRITE, &context_->interrupt_callback,
                                dictionary.address());
    watch_->throw_if_over(kOpen, name_);
    av::check(code, ErrorKind::kMux, kOpen, name_, said);
  }
  try {
    av::check(avformat_write_header(context_.get(), dictionary.address()), ErrorKind::kMux, kOpen, name_, said);
    dictionary.expect_all_used(ErrorKind::kMux, kOpen, name_);
  } catch (...) {
    context_.reset();
    throw;
  }
  // MP4 and its relatives keep such times, and write an edit list that begins at 0. A user's option overrides this.
  hides_negative_ = has_option(context_->oformat->priv_class, "use_editlist") && !options.contains("avoid_negative_ts");
  state_ = State::kOpen;
}

namespace {

// When a packet's content is displayed first; none for what is not meant to be. Of sound, the encoder's padding is not.
std::optional<std::int64_t> displayed_at(const AVPacket& packet, const AVStream& stream) noexcept {
  if (packet.pts == AV_NOPTS_VALUE || (packet.flags & AV_PKT_FLAG_DISCARD) != 0) {
    return std::nullopt;
  }
  const AVCodecParameters& parameters = *stream.codecpar;
  if (parameters.codec_type != AVMEDIA_TYPE_AUDIO || parameters.sample_rate <= 0) {
    return packet.pts;
  }
  return packet.pts + av_rescale_q(parameters.initial_padding, {1, parameters.sample_rate}, stream.time_base);
}

}  // namespace

// As soon as there is something of each stream; or of ten seconds, as libav waits for a stream that has nothing.
bool Muxer::shift_is_known() const noexcept {
  constexpr std::int64_t kLongest = 10;
  std::vector<bool> has_some(context_->nb_streams);
  for (const auto& packet : waiting_) {
    has_some[static_cast<std::size_t>(packet->stream_index)] = true;
    const AVPacket& first = *waiting_.front();
    if (packet->dts != AV_NOPTS_VALUE && first.dts != AV_NOPTS_VALUE) {
      const AVRational time_base = context_->streams[packet->stream_index]->time_base;
      const std::int64_t since =
          packet->dts - av_rescale_q(first.dts, context_->streams[first.stream_index]->time_base, time_base);
      if (av_compare_ts(since, time_base, kLongest, {1, 1}) > 0) {
        return true;
      }
    }
  }
  return std::find(has_some.begin(), has_some.end(), false) == has_some.end();
}

void Muxer::choose_shift() {
  Shift shift;
  for (const auto& packet : waiting_) {
    const AVStream& stream = *context_->streams[packet->stream_index];
    const std::int64_t time = displayed_at(*packet, stream).value_or(0);
    if (time < 0 && av_compare_ts(-time, stream.time_base, shift.ticks, shift.time_base) > 0) {
      shift = {-time, stream.time_base};
    }
  }
  shift_ = shift;
  for (auto& packet : std::exchange(waiting_, {})) {
    write_packet(std::move(packet));
  }
}

void Muxer::write_packet(av::PacketPtr packet) {
  const AVStream& stream = *context_->streams[packet->stream_index];
  if (shift_ && shift_->ticks > 0) {
    const std::int64_t ticks = av_rescale_q(shift_->ticks, shift_->time_base, stream.time_base);
    packet->pts += packet->pts != AV_NOPTS_VALUE ? ticks : 0;
    packet->dts += packet->dts != AV_NOPTS_VALUE ? ticks : 0;
  }
  const av::LogCapture said;
  watch_->restart();
  const int code = av_interleaved_write_frame(context_.get(), packet.get());
  watch_->throw_if_over(kWrite, name_);
  has_told_ = has_told_ || (code < 0 && context_->pb != nullptr && context_->pb->error < 0);
  av::check(code, ErrorKind::kMux, kWrite, name_, said);
}

// Between pictures that an edit list presents, no other container can have those that it leaves out.
void Muxer::expect_no_gap(const AVPacket& packet) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const auto found = gaps_.find(packet.stream_index);
  if (packet.pts == AV_NOPTS_VALUE) {
    return;
  }
  if ((packet.flags & AV_PKT_FLAG_DISCARD) == 0) {
    if (found != gaps_.end() && packet.pts >= found->second) {
      throw Error(ErrorKind::kMux, kWrite,
                  "the packets are of an edit list with several parts, and those between the parts would be shown: decode"
                  " them, and encode the pictures")
          .in(name_);
    }
    gaps_.try_emplace(packet.stream_index, kNone);
  } else if (found != gaps_.end()) {
    found->second = std::min(found->second, packet.pts);
  }
}

void Muxer::write(int stream_index, const Packets& packets) {
  expect(State::kOpen, kWrite);
  if (stream_index < 0 || static_cast<unsigned>(stream_index) >= context_->nb_streams) {
    throw Error(ErrorKind::kMux, kWrite,
                "it has " + std::to_string(context_->nb_streams) + " streams, numbered from 0; there is no stream " +
                    std::to_string(stream_index))
        .in(name_);
  }
  const AVStream& stream = *context_->streams[stream_index];
  const bool is_audio = stream.codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
  const bool fits = is_audio == (packets.type == MediaType::kAudio) &&
                    (!packets.codec || packets.codec->parameters->codec_id == stream.codecpar->codec_id);
  if (!fits) {
    const std::string given = packets.codec ? avcodec_get_name(packets.codec->parameters->codec_id) : "an unknown codec";
    throw Error(ErrorKind::kMux, kWrite,
                "the packets are " + std::string(name_of(packets.type)) + " of " + given + ", and stream " +
                    std::to_string(stream_index) + " is " + (is_audio ? "audio" : "video") + " of " +
                    avcodec_get_name(stream.codecpar->codec_id))
        .in(name_);
  }
  if (std::ranges::any_of(packets.packets, [](const auto& packet) { return WebpAnimation::is_frame(*packet); })) {
    throw Error(ErrorKind::kMux, kWrite,
                "the packets are frames of an animated WebP, which no muxer of FFmpeg takes; decode them, and encode the pictures")
        .in(name_);
  }
  for (const auto& original : packets.packets) {
    auto packet = av::clone(*original);
    packet->stream_index = stream_index;
    packet->pos = -1;
    av_packet_rescale_ts(packet.get(), packets.time_base, stream.time_base);
    packet->time_base = stream.time_base;
    if (!is_audio) {
      expect_no_gap(*packet);
    }
    if (hides_negative_ && !shift_) {
      waiting_.push_back(std::move(packet));
    } else {
      write_packet(std::move(packet));
    }
  }
  if (!waiting_.empty() && shift_is_known()) {
    choose_shift();
  }
}

void Muxer::flush() {
  if (state_ == State::kFinished) {
    return;
  }
  expect(State::kOpen, kFinish);
  write_trailer();
}

void Muxer::write_trailer() {
  if (!waiting_.empty()) {
    choose_shift();
  }
  const av::LogCapture said;
  // A second trailer would be written to what the first has torn down.
  state_ = State::kFinished;
  int code = av_write_trailer(context_.get());
  if (context_->pb != nullptr) {
    avio_flush(context_->pb);
    code = code < 0 ? code : std::min(context_->pb->error, 0);
  }
  has_told_ = has_told_ || code < 0;
  av::check(code, ErrorKind::kMux, kFinish, name_, said);
}

void Muxer::close() {
  if (state_ == State::kOpen && !has_told_) {
    try {
      write_trailer();
    } catch (...) {
      release();
      throw;
    }
  }
  const bool has_told = has_told_;
  const int code = release();
  if (!has_told) {
    av::check(code, ErrorKind::kMux, kFinish, name_);
  }
}

std::vector<std::uint8_t> Muxer::take() {
  expect(State::kFinished, "take the bytes of");
  std::vector<std::uint8_t> bytes = memory_->take();
  release();
  return bytes;
}

// The result of writing the last bytes of the file; closing alone would not report it.
int Muxer::release() noexcept {
  state_ = State::kClosed;
  waiting_.clear();
  int code = 0;
  if (context_ && context_->pb != nullptr && !memory_) {
    avio_flush(context_->pb);
    code = std::min(context_->pb->error, 0);
    const int closing = avio_closep(&context_->pb);
    code = code < 0 ? code : closing;
  }
  context_.reset();
  return code;
}

void Muxer::expect(State wanted, const char* action) const {
  if (state_ == wanted) {
    return;
  }
  switch (state_) {
    case State::kNew:
      throw Error(ErrorKind::kMux, action, "it is not open; call open() first").in(name_);
    case State::kOpen:
      throw Error(ErrorKind::kMux, action, "it is already open").in(name_);
    case State::kFinished:
      throw Error(ErrorKind::kMux, action, "it is finished: it was flushed").in(name_);
    case State::kClosed:
      throw Error(ErrorKind::kClosed, action, "the muxer was closed").in(name_);
  }
}

void Muxer::expect_format_takes(AVCodecID codec, const char* action) const {
  const AVOutputFormat& format = *context_->oformat;
  if (can_hold(format, codec)) {
    return;
  }
  const AVMediaType type = avcodec_get_type(codec);
  const char* kind = av_get_media_type_string(type);
  std::string known;
  for (const std::string& name : codecs_held(format, type)) {
    known += (known.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorKind::kMux, action,
              "the format " + std::string(format.name) + " cannot hold " + avcodec_get_name(codec) + "; of " +
                  (kind != nullptr ? kind : "that kind") + " it holds " + (known.empty() ? "nothing" : known))
      .in(name_);
}

// A wrong option must not destroy an existing file. Options that network protocols pass on to others are not known
// here; for them, the options left over after opening are checked.
void Muxer::check_options(const av::Options& options) const {
  const char* protocol = avio_find_protocol_name(context_->url);
  if (protocol == nullptr || std::strcmp(protocol, "file") != 0) {
    return;
  }
  const AVClass* const kinds[] = {avformat_get_class(), context_->oformat->priv_class,
                                  avio_protocol_get_class(protocol)};
  for (const auto& [key, value] : options) {
    const bool is_known =
        std::any_of(std::begin(kinds), std::end(kinds), [&](const AVClass* kind) { return has_option(kind, key); });
    if (!is_known) {
      throw Error(ErrorKind::kMux, kOpen, "unknown option '" + key + "'").in(name_);
    }
  }
}

}  // namespace spdl
