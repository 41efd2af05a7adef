#include "media/input.h"

extern "C" {
#include <libavformat/avio.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "av/check.h"
#include "base/file.h"
#include "media/packets.h"
#include "media/recognize.h"

namespace spdl {
namespace {

// libav takes what stands before a colon as a protocol; a file of that name is a file.
std::string url_of(const std::string& path) {
  std::error_code ignored;
  if (path.find(':') != std::string::npos && std::filesystem::exists(path, ignored)) {
    return "file:" + path;
  }
  return path;
}

const AVInputFormat* find_format(const std::string& format_name, const std::string& name) {
  const AVInputFormat* format = av_find_input_format(format_name.c_str());
  if (format == nullptr) {
    throw Error(ErrorKind::kDemux, "open", "unknown format '" + format_name + "'").in(name);
  }
  return format;
}

}  // namespace

// Data in memory as libav reads it: by callbacks that copy from it into libav's own small buffer, or, where a packet is
// larger than that, into the packet.
struct Input::Memory {
  std::span<const std::uint8_t> data;
  std::size_t position = 0;
  AVIOContext* io = nullptr;

  Memory(std::span<const std::uint8_t> bytes, int buffer_size) : data(bytes) {
    auto* buffer = static_cast<std::uint8_t*>(av_malloc(static_cast<std::size_t>(buffer_size)));
    io = buffer == nullptr ? nullptr : avio_alloc_context(buffer, buffer_size, 0, this, &read, nullptr, &seek);
    if (io == nullptr) {
      av_free(buffer);
      throw std::bad_alloc();
    }
  }
  ~Memory() {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Called without the GIL.
  static int read(void* opaque, std::uint8_t* into, int size) {
    auto& self = *static_cast<Memory*>(opaque);
    const std::size_t count = std::min(static_cast<std::size_t>(size), self.data.size() - self.position);
    if (count == 0) {
      return AVERROR_EOF;
    }
    std::memcpy(into, self.data.data() + self.position, count);
    self.position += count;
    return static_cast<int>(count);
  }

  static std::int64_t seek(void* opaque, std::int64_t offset, int whence) {
    auto& self = *static_cast<Memory*>(opaque);
    const auto size = static_cast<std::int64_t>(self.data.size());
    switch (whence & ~AVSEEK_FORCE) {
      case AVSEEK_SIZE:
        return size;
      case SEEK_SET:
        break;
      case SEEK_CUR:
        offset += static_cast<std::int64_t>(self.position);
        break;
      case SEEK_END:
        offset += size;
        break;
      default:
        return AVERROR(EINVAL);
    }
    if (offset < 0) {
      return AVERROR(EINVAL);
    }
    // As with a file, one may stand behind the end, and reads nothing there.
    self.position = static_cast<std::size_t>(std::min(offset, size));
    return offset;
  }
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
  av::Dictionary options(config_.format_options);
  std::string url;
  std::array<std::uint8_t, kStartBytes> room;
  std::span<const std::uint8_t> start;
  auto context = av::own<std::unique_ptr<AVFormatContext, av::FreeByPointer<&avformat_free_context>>>(
      avformat_alloc_context());
  if (const auto* path = std::get_if<std::string>(&source_)) {
    url = url_of(*path);
    start = read_start(*path, room);
  } else {
    start = std::get<1>(source_).first(std::min(std::get<1>(source_).size(), kStartBytes));
    memory_ = std::make_unique<Memory>(std::get<1>(source_), config_.buffer_size);
    context->pb = memory_->io;
  }
  const AVInputFormat* format = config_.format ? find_format(*config_.format, name_) : recognize(start);
  if (format != nullptr && std::string_view(format->name) == "wav" && !may_hide_a_codec(start)) {
    context->max_probe_packets = 0;
  }
  declared_size_ = declared_size(start);
  is_endless_ = is_endless_wav(start);
  AVFormatContext* opened = context.release();  // which this call frees if it fails
  const int code = avformat_open_input(&opened, url.c_str(), format, options.address());
  if (code < 0) {
    if (code == AVERROR(ENOMEM)) {
      throw std::bad_alloc();
    }
    const bool is_unknown_option = code == AVERROR_OPTION_NOT_FOUND;
    const ErrorKind kind = code == AVERROR(ENOENT) ? ErrorKind::kSourceNotFound
                           : is_unknown_option     ? ErrorKind::kDemux
                                                   : ErrorKind::kOpen;
    throw av::make_error(kind, code, "open", name_);
  }
  context_.reset(opened);
  options.expect_all_used(ErrorKind::kDemux, "open", name_);
  if (is_whole_picture(*context_)) {
    context_->flags |= AVFMT_FLAG_NOPARSE | AVFMT_FLAG_NOFILLIN;
  }
  // What cannot be opened twice has to be looked into now.
  has_all_parameters_ = find_all_parameters || start.empty() || !is_header_enough(*context_);
  if (has_all_parameters_) {
    av::check(avformat_find_stream_info(context_.get(), nullptr), ErrorKind::kOpen, "open", name_);
  }
  is_at_start_ = true;
}

void Input::reopen() {
  context_.reset();
  memory_.reset();
  open(has_all_parameters_);
}

Input Input::with_all_parameters() const { return Input(source_, name_, config_, true); }

bool Input::read(AVPacket& packet) {
  is_at_start_ = false;
  // Some containers say "again" when they have only moved on to their next part.
  constexpr int kMostAttempts = 1000;
  int code = AVERROR(EAGAIN);
  for (int attempt = 0; code == AVERROR(EAGAIN) && attempt < kMostAttempts; ++attempt) {
    code = av_read_frame(context_.get(), &packet);
  }
  if (code == AVERROR_EOF) {
    expect_all_data();
    return false;
  }
  if (code == AVERROR(ENOMEM)) {
    throw std::bad_alloc();
  }
  if (code < 0) {
    throw av::make_error(ErrorKind::kDemux, code, "read", name_).at(stream_, time_);
  }
  stream_ = packet.stream_index;
  time_ = seconds_of(packet, context_->streams[stream_]->time_base);
  if ((packet.flags & AV_PKT_FLAG_CORRUPT) != 0 && !(is_endless_ && avio_feof(context_->pb) != 0)) {
    av_packet_unref(&packet);
    throw av::make_error(ErrorKind::kDemux, AVERROR_INVALIDDATA, "read", name_,
                         "the data of a packet is damaged or cut off")
        .at(stream_, time_);
  }
  packet.flags &= ~AV_PKT_FLAG_CORRUPT;
  if ((context_->flags & AVFMT_FLAG_NOFILLIN) != 0 && packet.pts == AV_NOPTS_VALUE) {
    packet.pts = packet.dts = 0;  // of a picture alone
  }
  return true;
}

// libav takes the end of the data for the end of the media, wherever it comes.
void Input::expect_all_data() const {
  const std::int64_t present = context_->pb != nullptr ? avio_size(context_->pb) : -1;
  if (present < 0) {
    return;
  }
  std::uint64_t expected = declared_size_.value_or(0);
  if (std::string_view(context_->iformat->name).starts_with("mov")) {
    // Its index is complete, and made before the data is there.
    for (unsigned i = 0; i < context_->nb_streams; ++i) {
      AVStream* stream = context_->streams[i];
      const int count = avformat_index_get_entries_count(stream);
      const AVIndexEntry* last = count > 0 ? avformat_index_get_entry(stream, count - 1) : nullptr;
      if (stream->discard != AVDISCARD_ALL && last != nullptr && last->pos >= 0) {
        expected = std::max(expected, static_cast<std::uint64_t>(last->pos) + static_cast<std::uint64_t>(last->size));
      }
    }
  }
  if (expected > static_cast<std::uint64_t>(present)) {
    throw Error(ErrorKind::kDemux, "read",
                "the data ends early: " + std::to_string(present) + " of " + std::to_string(expected) +
                    " bytes are there")
        .in(name_)
        .at(stream_, time_);
  }
}

bool Input::seek(int stream, std::int64_t ticks) {
  is_at_start_ = false;
  return avformat_seek_file(context_.get(), stream, INT64_MIN, ticks, ticks, 0) >= 0;
}

bool Input::has_reliable_times() const noexcept {
  static constexpr std::array<std::string_view, 3> kReliable = {"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts"};
  return std::find(kReliable.begin(), kReliable.end(), context_->iformat->name) != kReliable.end();
}

}  // namespace spdl
