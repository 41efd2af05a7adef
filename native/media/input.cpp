#include "media/input.h"

extern "C" {
#include <libavformat/avio.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
#include <libavutil/parseutils.h>
}

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "av/check.h"
#include "av/library.h"
#include "av/log.h"
#include "base/sniff.h"
#include "media/access.h"
#include "media/declared_size.h"
#include "media/packets.h"
#include "media/recognize.h"
#include "media/source_io.h"
#include "media/still_frame.h"
#include "media/transport.h"

namespace spdl {
namespace {

constexpr const char* kOpen = "open";

// What FFmpeg allows playlists in files to open (libavformat/file.c), and, where no source says where they come from, what
// it allows those of HTTP servers as well (http.c).
constexpr const char* kProtocolsOfFiles = "file,crypto,data";
constexpr const char* kProtocolsOfMemory = "file,http,https,tls,tcp,httpproxy,crypto,data";

// For formats that open their source themselves: libav takes what stands before a colon as a protocol.
std::string url_of(const std::string& path) {
  std::error_code ignored;
  return path.find(':') != std::string::npos && std::filesystem::exists(path, ignored) ? "file:" + path : path;
}

bool opens_its_source(const AVInputFormat* format) noexcept {
  return format != nullptr && (format->flags & AVFMT_NOFILE) != 0;
}

const AVInputFormat* find_format(const std::string& format_name, const std::string& name) {
  const AVInputFormat* format = av_find_input_format(format_name.c_str());
  if (format == nullptr) {
    throw Error(ErrorKind::kDemux, kOpen, "unknown format '" + format_name + "'").in(name);
  }
  return format;
}

// The demuxer of numbered images (libavformat/img2dec.c) claims every image whose name looks like a pattern, whatever
// its content: only the suffix may count.
std::string name_for_probing(std::string name) {
  std::ranges::replace_if(
      name, [](char each) { return std::string_view("*?[]{}%").find(each) != std::string_view::npos; }, '_');
  return name;
}

// FFmpeg implements two streaming protocols as demuxers: such a URL also names the format.
const AVInputFormat* format_of_url(const std::string& url) noexcept {
  if (url.starts_with("rtsp:") || url.starts_with("rtsps:")) {
    return av_find_input_format("rtsp");
  }
  return url.starts_with("rtp:") ? av_find_input_format("rtp") : nullptr;
}

}  // namespace

struct Input::IoState {
  IoState(const DemuxConfig& config, bool may_open_others, const std::string& name)
      : watch(config.timeout), access(may_open_others, config.protocols, name) {}

  Watch watch;
  Access access;
  std::optional<SourceIo> io;  // none where the format opens its source itself
};

Input::Input(MediaSource source, std::string name, DemuxConfig config)
    : Input(std::move(source), std::move(name), std::move(config), false) {}

Input::Input(MediaSource source, std::string name, DemuxConfig config, bool find_all_parameters)
    : source_(std::move(source)), name_(std::move(name)), config_(std::move(config)) {
  open(find_all_parameters);
}

Input::~Input() = default;
Input::Input(Input&&) noexcept = default;

void Input::open(bool find_all_parameters) {
  const auto* path = std::get_if<std::string>(&source_.from);
  const AVInputFormat* format = config_.format    ? find_format(*config_.format, name_)
                                : path != nullptr ? format_of_url(*path)
                                                  : nullptr;
  const bool may_open_others = format != nullptr || config_.format_options.contains("protocol_whitelist");
  io_state_ = std::make_unique<IoState>(config_, may_open_others, name_);
  context_ = av::own<av::InputPtr>(avformat_alloc_context());
  context_->interrupt_callback = interrupt_by(io_state_->watch);
  av::Dictionary options(config_.format_options);
  av::Dictionary options_of_url(config_.format_options);
  const std::string url = open_source(format, options_of_url);
  const bool is_from_url = io_state_->io && io_state_->io->is_url();

  const av::LogCapture said;
  fail_unless_opened(av_opt_set_dict(context_.get(), options.address()), said);
  std::array<std::uint8_t, kStartBytes> room;
  std::span<const std::uint8_t> start;
  if (io_state_->io) {
    context_->pb = io_state_->io->context();
    context_->flags |= AVFMT_FLAG_CUSTOM_IO;  // that it is ours to close
    start = io_state_->io->start(room);
  }
  if (format == nullptr) {
    format = recognize(start);
  }
  if (const char* what = format == nullptr ? unsupported_sound(start) : nullptr) {
    throw Error(ErrorKind::kOpen, kOpen, std::string("it is ") + what + ", which is not supported; convert it with another program")
        .in(name_);
  }
  if (format == nullptr) {
    if (is_hls_playlist(start)) {
      format = av_find_input_format("hls");
    }
    if (format == nullptr) {
      const int code = av_probe_input_buffer2(context_->pb, &format, name_for_probing(url).c_str(), context_.get(), 0,
                                              static_cast<unsigned>(context_->format_probesize));
      if (context_->pb->bytes_read == 0) {
        context_->pb->eof_reached = 1;  // which probing has taken back
      }
      fail_unless_opened(code, said);
      fail_if_empty();
    }
    io_state_->access.check(*format, name_);
  }
  declared_size_ = declared_size(start);
  is_endless_ = is_endless_wav(start);
  wav_.reset();
  webp_.reset();
  if (std::string_view(format->name) == "wav" && io_state_->io) {
    find_wav(start);
  } else if (std::string_view(format->name) == "webp_pipe" && io_state_->io) {
    webp_ = WebpPackets::find(start.empty() ? std::span<const std::uint8_t>(probed()) : start);
  }
  if (!open_format(url, *format, options, said)) {
    has_plain_header_ = true;
    open(find_all_parameters);
    return;
  }
  if (is_from_url) {
    options.keep_common(options_of_url);
  }
  options.expect_all_used(ErrorKind::kDemux, kOpen, name_);
  if (is_whole_picture(*context_)) {
    context_->flags |= AVFMT_FLAG_NOPARSE | AVFMT_FLAG_NOFILLIN;
  }
  complete_flac(*context_);
  // What cannot be opened twice has to be looked into now.
  const bool may_be_hidden = wav_ && !has_plain_header() && may_hide_a_codec(start);
  has_all_parameters_ = wav_ || webp_ || find_all_parameters || start.empty() || !is_header_enough(*context_);
  if (has_all_parameters_ && !webp_ && (!wav_ || may_be_hidden)) {
    fail_unless_opened(avformat_find_stream_info(context_.get(), nullptr), said);
    fail_if_empty();
    if (wav_ && !wav_->is_codec_of(*context_)) {
      wav_.reset();
    }
  }
  look_at_end();
  if (!has_all_parameters_ && std::string_view(context_->iformat->name) == "matroska,webm") {
    // When it begins, only its first packet tells.
    av::PacketPtr first = av::new_packet();
    if (av_read_frame(context_.get(), first.get()) >= 0) {
      ahead_.push_back(std::move(first));
    }
  }
  keep_tracks();
  is_at_start_ = true;
  read_up_to_ = 0;
}

// Of a source each of whose jumps is a request.
void Input::keep_tracks() {
  if (!io_state_->io) {
    return;
  }
  SourceIo& io = *io_state_->io;
  if (known_tracks_.empty() && std::string_view(context_->iformat->name).starts_with("mov")) {
    const std::int64_t size = avio_size(io.context());
    bool is_known = true;
    const BytesAt bytes_at = [&](std::int64_t position, std::size_t wanted) {
      wanted = static_cast<std::size_t>(std::clamp<std::int64_t>(size - position, 0, static_cast<std::int64_t>(wanted)));
      const auto bytes = io.kept(position, wanted);
      is_known = is_known && bytes.size() == wanted;
      return bytes;
    };
    for (unsigned i = 0; i < context_->nb_streams && is_known; ++i) {
      const int id = context_->streams[i]->id;
      const std::optional<Mp4Track> track = read_mp4_track(size, id, bytes_at);
      if (track && is_known) {
        known_tracks_.emplace(id, *track);
      }
    }
  }
  io.forget();
}

std::optional<Mp4Track> Input::known_track(int id) const {
  const auto found = known_tracks_.find(id);
  return found == known_tracks_.end() ? std::nullopt : std::optional(found->second);
}

// What probing has read.
std::vector<std::uint8_t> Input::probed() const {
  const AVIOContext& io = *io_state_->io->context();
  return {io.buf_ptr, io.buf_end};
}

// Whether our own parser reads the packets. `start`: the first bytes; none of a source that can be read only once, or of a
// URL.
void Input::find_wav(std::span<const std::uint8_t> start) {
  AVIOContext& io = *io_state_->io->context();
  const std::vector<std::uint8_t> copy = start.empty() ? probed() : std::vector<std::uint8_t>();
  const std::span<const std::uint8_t> known = start.empty() ? std::span<const std::uint8_t>(copy) : start;
  const bool may_hide = may_hide_a_codec(known);
  if (!may_hide) {
    context_->max_probe_packets = 0;
  } else if (start.empty()) {
    return;  // what looking for it has read cannot be read again
  }
  try {
    wav_ = WavPackets::find(known, io);
  } catch (Error& error) {
    error.source = name_;
    throw;
  }
}

bool Input::has_plain_header() const noexcept { return has_plain_header_ || wav_->needs_plain_header(); }

// False if libav takes offence at what lies around the samples of a WAV file, such as a `bext` chunk that is too short.
bool Input::open_format(const std::string& url, const AVInputFormat& format, av::Dictionary& options,
                        const av::LogCapture& said) {
  std::vector<std::uint8_t> header;
  std::optional<SourceIo> header_io;
  AVIOContext* own_io = context_->pb;
  if (wav_ && has_plain_header()) {
    header = wav_->plain_header();
    header_io.emplace(std::span<const std::uint8_t>(header), static_cast<int>(header.size()));
    context_->pb = header_io->context();
  }
  AVFormatContext* opened = context_.release();  // which this call frees if it fails
  const int code = avformat_open_input(&opened, url.c_str(), &format, options.address());
  context_.reset(opened);
  if (code == AVERROR_INVALIDDATA && wav_ && !has_plain_header() &&
      (own_io->seekable & AVIO_SEEKABLE_NORMAL) != 0) {
    return false;
  }
  fail_unless_opened(code, said);
  if (header_io) {
    context_->pb = own_io;
  }
  if (wav_) {
    wav_->complete(*context_);
  }
  if (webp_) {
    webp_->complete(*context_);
  }
  return true;
}

// Makes what libav is to read from, except where `format` opens it. Returns what libav is to call it.
std::string Input::open_source(const AVInputFormat* format, av::Dictionary& options_of_url) {
  auto& [watch, access, io] = *io_state_;
  const auto* path = std::get_if<std::string>(&source_.from);
  std::string url = path != nullptr ? *path : config_.file_name;
  const char* protocols = nullptr;  // FFmpeg knows for URLs
  if (path == nullptr) {
    if (const auto* ranges = std::get_if<std::shared_ptr<ByteRanges>>(&source_.from)) {
      io.emplace(*ranges, watch);
    } else {
      io.emplace(std::get<1>(source_.from), config_.buffer_size);
    }
    protocols = kProtocolsOfMemory;
    if (url.empty() && (format != nullptr || config_.protocols)) {
      url = "./";  // what relative names in it are relative to; HLS does without such a name only if all are absolute
    }
  } else if (opens_its_source(format)) {
    url = url_of(*path);
  } else if (is_url(*path)) {
    io.emplace(open_url(*path, watch, options_of_url, name_));
  } else {
    io.emplace(*path, name_, watch);
    protocols = kProtocolsOfFiles;
  }
  access.restrict(*context_, protocols);
  return url;
}

void Input::throw_if_failed(const char* action) const {
  io_state_->watch.throw_if_over(action, name_);
  if (io_state_->io) {
    io_state_->io->throw_if_failed();
  }
}

// The reason that a user can do something about comes first; what FFmpeg returns often only follows from it.
void Input::fail_unless_opened(int code, const av::LogCapture& said) const {
  throw_if_failed(kOpen);
  io_state_->access.throw_if_refused(kOpen, name_);
  if (code >= 0) {
    return;
  }
  fail_if_empty();
  std::array<std::uint8_t, kSniffedBytes> start{};
  if (io_state_->io && sniff_format(io_state_->io->start(start)) == "HEIF") {
    throw Error(ErrorKind::kOpen, kOpen,
                "it looks like HEIF, whose items FFmpeg " + av::version() +
                    " does not demux: load_image and load_image_batch read it")
        .in(name_);
  }
  const bool is_missing = code == AVERROR(ENOENT) && !io_state_->io;
  const ErrorKind kind = is_missing                             ? ErrorKind::kSourceNotFound
                         : code == AVERROR_OPTION_NOT_FOUND ? ErrorKind::kDemux
                                                                : ErrorKind::kOpen;
  throw av::make_error(kind, code, kOpen, name_, config_.format ? said.text() : "");
}

void Input::fail_if_empty() const {
  const auto& io = io_state_->io;
  if (io && io->context()->bytes_read == 0 && io->context()->eof_reached != 0 && io->context()->error == 0) {
    throw Error(ErrorKind::kOpen, kOpen, "it is empty").in(name_);
  }
}

void Input::reopen() {
  drop_peeked();
  context_.reset();
  open(has_all_parameters_);
}

Input Input::with_all_parameters() const { return Input(source_, name_, config_, true); }

Input Input::with_edits(int stream, EditList edits) const {
  DemuxConfig config = config_;
  config.format_options.insert_or_assign("ignore_editlist", std::string("1"));
  Input other(source_, name_, std::move(config), has_all_parameters_);
  other.edits_ = std::move(edits);
  other.edited_stream_ = stream;
  return other;
}

bool Input::read(AVPacket& packet) {
  is_at_start_ = false;
  io_state_->watch.restart();
  if (is_ended_) {
    return false;
  }
  try {
    return read_next(packet);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kDemux || !config_.tolerate_errors) {
      throw;
    }
    ++num_errors_;
    is_ended_ = true;
    return false;
  }
}

bool Input::read_next(AVPacket& packet) {
  do {
    if (ahead_.empty()) {
      if (!read_marked(packet)) {
        return false;
      }
    } else {
      av_packet_move_ref(&packet, ahead_.front().get());
      ahead_.pop_front();
    }
    stream_ = packet.stream_index;
    time_ = seconds_of(packet, context_->streams[stream_]->time_base);
  } while (!cut_to_sound(packet));
  if (edits_ && packet.stream_index == edited_stream_) {
    edits_->apply(packet);
  }
  if ((packet.flags & AV_PKT_FLAG_CORRUPT) != 0) {
    settle_damage(packet);
  }
  if (packet.pts == AV_NOPTS_VALUE && is_whole_picture(*context_)) {
    packet.pts = packet.dts = 0;  // of a picture alone
  }
  correct_packet(packet, context_->streams[packet.stream_index]->codecpar->codec_id);
  return true;
}

// The next packet as libav gives it.
bool Input::read_marked(AVPacket& packet) {
  // Some containers say "again" when they have only moved on to their next part.
  constexpr int kMostAttempts = 1000;
  int code = AVERROR(EAGAIN);
  const std::int64_t position = context_->pb != nullptr ? avio_tell(context_->pb) : -1;
  for (int attempt = 0; code == AVERROR(EAGAIN) && attempt < kMostAttempts; ++attempt) {
    code = wav_    ? wav_->read(*context_->pb, packet)
           : webp_ ? webp_->read(*context_->pb, packet)
                   : av_read_frame(context_.get(), &packet);
  }
  throw_if_failed("read");
  io_state_->access.throw_if_refused("read", name_);
  if (code == AVERROR_EOF || (code < 0 && is_odd_end(code, position))) {
    expect_no_failure();
    expect_whole_matroska(std::numeric_limits<std::int64_t>::max());
    expect_all_data();
    return false;
  }
  if (code < 0) {
    throw av::make_error(ErrorKind::kDemux, code, "read", name_).at(stream_, time_);
  }
  expect_whole_matroska(packet.pos);
  return true;
}

// Between the last packet and the one at that position.
void Input::expect_whole_matroska(std::int64_t position) {
  if (position < 0 || !io_state_->io || std::string_view(context_->iformat->name) != "matroska,webm") {
    return;
  }
  const std::int64_t from = std::exchange(read_up_to_, position);
  if (from >= 0 && io_state_->io->matroska_check().is_damaged(from, position)) {
    report("a part of the file is damaged, and what lies between it and the next cluster is lost");
  }
}

const AVPacket* Input::peek(std::size_t index) {
  while (ahead_.size() <= index) {
    av::PacketPtr next = av::new_packet();
    if (!read_marked(*next)) {
      return nullptr;
    }
    ahead_.push_back(std::move(next));
  }
  return ahead_[index].get();
}

void Input::drop_peeked() noexcept {
  ahead_.clear();
  is_ended_ = false;
}

bool Input::seek(int stream, std::int64_t min_ticks, std::int64_t ticks, int flags) {
  is_at_start_ = false;
  io_state_->watch.restart();
  drop_peeked();
  if (wav_) {
    wav_->seek(ticks);
    return true;
  }
  read_up_to_ = -1;
  if (edits_ && stream == edited_stream_) {
    ticks = edits_->media_at(ticks);
  }
  const bool has_succeeded = avformat_seek_file(context_.get(), stream, min_ticks, ticks, ticks, flags) >= 0;
  if (io_state_->io) {
    io_state_->io->throw_if_failed();  // rather than read from the beginning, which is not available
  }
  return has_succeeded;
}

std::size_t Input::read_at(std::int64_t position, std::span<std::uint8_t> into) {
  is_at_start_ = false;
  io_state_->watch.restart();
  AVIOContext* io = context_->pb;
  io->update_checksum = nullptr;  // libav's MP3 demuxer may leave it on, and it takes longer than reading
  if (avio_seek(io, position, SEEK_SET) != position) {
    throw_if_failed("read");
    return 0;
  }
  const int size = avio_read(io, into.data(), static_cast<int>(into.size()));
  throw_if_failed("read");
  return static_cast<std::size_t>(std::max(size, 0));
}

std::optional<AVRational> Input::asked_frame_rate() const {
  const auto option = config_.format_options.find("framerate");
  AVRational rate{0, 1};
  if (option == config_.format_options.end() || av_parse_video_rate(&rate, option->second.c_str()) < 0) {
    return std::nullopt;
  }
  return rate;
}

bool Input::knows_display() const noexcept {
  static constexpr std::array<std::string_view, 8> kDoNot = {"avi",  "asf",  "asf_o", "h264",
                                                             "hevc", "m4v",  "vc1",   "mpegvideo"};
  return std::find(kDoNot.begin(), kDoNot.end(), context_->iformat->name) == kDoNot.end();
}

bool Input::follows_edits() const {
  return !config_.format_options.contains("ignore_editlist") && !config_.format_options.contains("advanced_editlist");
}

bool Input::has_reliable_dts() const noexcept { return std::string_view(context_->iformat->name) != "flv"; }

}  // namespace spdl
