#include "media/sound_bounds.h"

extern "C" {
#include <libavformat/avio.h>
#include <libavutil/mathematics.h>
}

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "image/bytes.h"
#include "media/flac_header.h"
#include "media/input.h"
#include "media/mp4_edits.h"
#include "media/packets.h"

namespace spdl {
namespace {

constexpr std::size_t kSkipSamples = 10;  // bytes of AV_PKT_DATA_SKIP_SAMPLES

bool is_mp4(const AVFormatContext& context) noexcept { return std::string_view(context.iformat->name).starts_with("mov"); }
bool is_matroska(const AVFormatContext& context) noexcept {
  return std::string_view(context.iformat->name) == "matroska,webm";
}

// Sound whose packets say where their samples are, and are found by that. Where one is missing, there is silence. Granule positions
// of other codecs in Ogg, such as Speex, count the encoder's delay too, but not in the first page.
bool is_timed(const AVFormatContext& context, AVCodecID codec) noexcept {
  const bool has_granules = codec == AV_CODEC_ID_VORBIS || codec == AV_CODEC_ID_OPUS || codec == AV_CODEC_ID_FLAC;
  const std::string_view name = context.iformat->name;
  return (name == "ogg" && has_granules) || name == "flac";
}

// Whose samples have no delay, and whose packets need not be looked at.
bool is_plain(const AVFormatContext& context, const AVCodecParameters& parameters) noexcept {
  return is_timed(context, parameters.codec_id) || (av_get_bits_per_sample(parameters.codec_id) > 0 && !is_mp4(context));
}

// Whose packets all have the same number of samples, also the last one.
bool is_padded(AVCodecID id) noexcept {
  return id == AV_CODEC_ID_AAC || id == AV_CODEC_ID_MP3 || id == AV_CODEC_ID_MP2 || id == AV_CODEC_ID_AC3;
}

// The length of packets that all have the same, in ticks, from the index of an MP4 file; none if it has no two of them.
std::optional<std::int64_t> indexed_length(AVStream& stream) {
  const AVIndexEntry* first = avformat_index_get_entry(&stream, 0);
  const AVIndexEntry* second = avformat_index_get_entry(&stream, 1);
  std::int64_t length = 0;
  const AVCodecID codec = stream.codecpar->codec_id;
  const bool is_even = is_padded(codec) || codec == AV_CODEC_ID_ALAC || codec == AV_CODEC_ID_FLAC;  // but for the last one
  if (!is_even || first == nullptr || second == nullptr ||
      __builtin_sub_overflow(second->timestamp, first->timestamp, &length) || length <= 0 || length > 1 << 20) {
    return std::nullopt;
  }
  return length;
}

// Whether those packets before this one have no gaps, as far as the index of an MP4 file tells.
bool is_unbroken(AVStream& stream, std::int64_t pts, std::int64_t first_pts) {
  const auto length = indexed_length(stream);
  const int number = av_index_search_timestamp(&stream, pts, AVSEEK_FLAG_ANY | AVSEEK_FLAG_BACKWARD);
  return !length || number < 0 || avformat_index_get_entry(&stream, 0)->timestamp != first_pts ||
         number * *length == pts - first_pts;
}

// In samples at 48 kHz (RFC 6716, section 3.1).
std::optional<int> num_opus_samples(Bytes packet) noexcept {
  constexpr std::array<int, 4> kSilk = {480, 960, 1920, 2880};
  const unsigned config = byte_at(packet, 0) >> 3;
  const int of_frame = config < 12 ? kSilk[config & 3] : config < 16 ? 480 << (config & 1) : 120 << (config & 3);
  const unsigned code = byte_at(packet, 0) & 3;
  const int num_frames = code == 0 ? 1 : code < 3 ? 2 : static_cast<int>(byte_at(packet, 1) & 0x3f);
  const int num_samples = of_frame * num_frames;
  return packet.empty() || num_samples == 0 ? std::nullopt : std::optional(num_samples);
}

std::optional<int> num_flac_samples(Bytes packet) noexcept {
  const auto header = parse_flac_header(packet);
  return header ? std::optional(header->num_samples) : std::nullopt;
}

// Of an Opus stream, as its decoder leaves out by itself (RFC 7845, section 5.1).
std::int64_t opus_delay(const AVCodecParameters& parameters) noexcept {
  const Bytes head(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
  return head.size() >= 12 ? little_endian(head, 10, 2) : 0;
}

std::int64_t marked_delay(const AVPacket& packet) noexcept {
  std::size_t size = 0;
  const std::uint8_t* side = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
  return side != nullptr && size >= kSkipSamples ? little_endian({side, size}, 0, 4) : 0;
}

std::int64_t to_samples(std::int64_t ticks, const AVStream& stream) noexcept {
  return stream.codecpar->sample_rate > 0 ? av_rescale_q(ticks, stream.time_base, {1, stream.codecpar->sample_rate}) : 0;
}

// What iTunes writes where there is no edit list: zero, delay, padding and number of samples, as hexadecimal numbers.
struct TaggedSound {
  std::int64_t delay = 0;
  std::int64_t length = 0;
};

std::optional<TaggedSound> tagged_sound(const AVFormatContext& context) {
  const AVDictionaryEntry* tag = av_dict_get(context.metadata, "iTunSMPB", nullptr, 0);
  unsigned delay = 0;
  unsigned padding = 0;
  unsigned long long count = 0;
  if (tag == nullptr || std::sscanf(tag->value, "%*x %x %x %llx", &delay, &padding, &count) != 3 || count == 0 ||
      count > 1ULL << 48) {
    return std::nullopt;
  }
  return TaggedSound{delay, static_cast<std::int64_t>(count)};
}

// What WAV states in its chunk `fact`; 0 if nothing. Leaves the input where it is.
std::int64_t fact_of(Input& input, std::int64_t size) {
  const bool was_at_start = input.is_at_start();
  const std::int64_t position = avio_tell(input.context().pb);
  std::int64_t found = 0;
  std::array<std::uint8_t, 12> chunk{};
  constexpr int kMostChunks = 64;  // damaged files may have a million
  std::int64_t at = 12;
  for (int i = 0; i < kMostChunks && at + 12 <= size && input.read_at(at, chunk) == chunk.size(); ++i) {
    const std::string_view name(reinterpret_cast<const char*>(chunk.data()), 4);
    if (name == "fact" || name == "data") {
      found = name == "fact" ? little_endian(chunk, 8, 4) : 0;
      break;
    }
    at += 8 + std::int64_t{little_endian(chunk, 4, 4)} + (little_endian(chunk, 4, 4) & 1);
  }
  avio_seek(input.context().pb, position, SEEK_SET);
  input.set_at_start(was_at_start);
  return found;
}

// The number of samples that a compressed WAV states, if only the end of the last block is none of the sound: other numbers are
// mistakes of their writers.
std::optional<std::int64_t> stated_samples(Input& input, AVStream& stream) {
  AVIOContext* io = input.context().pb;
  AVCodecParameters& parameters = *stream.codecpar;
  const bool is_wav = std::string_view(input.context().iformat->name) == "wav" &&
                      parameters.codec_id >= AV_CODEC_ID_ADPCM_IMA_QT;  // behind all of PCM
  const int block = is_wav && parameters.block_align > 0 ? av_get_audio_frame_duration2(&parameters, parameters.block_align) : 0;
  const std::int64_t size = block > 0 && io != nullptr && (io->seekable & AVIO_SEEKABLE_NORMAL) != 0 ? avio_size(io) : 0;
  if (size <= 0 || stream.time_base.num != 1 || stream.time_base.den != parameters.sample_rate) {
    return std::nullopt;
  }
  const AVPacket* first = input.peek(0);
  if (first == nullptr || first->pos < 0) {
    return std::nullopt;
  }
  const std::int64_t all = (size - first->pos) / parameters.block_align * block;
  const std::int64_t stated = fact_of(input, size);
  // Some writers divide the number by that of the channels: where it may be so, all of the block is kept.
  const std::int64_t multiplied = stated * parameters.ch_layout.nb_channels;
  const bool is_unsure = parameters.ch_layout.nb_channels > 1 && multiplied > all - block && multiplied <= all;
  return stated > all - block && stated < all && !is_unsure ? std::optional(stated) : std::nullopt;
}

void read_mp4_bounds(Input& input, AVStream& stream, std::int64_t start, SoundBounds& bounds) {
  const AVIndexEntry* first = avformat_index_get_entry(&stream, 0);
  const AVIndexEntry* last = avformat_index_get_entry(&stream, avformat_index_get_entries_count(&stream) - 1);
  bounds.first_pts = first != nullptr ? first->timestamp : start;
  // libav moves the start of a stream behind the delay, in some versions also where it does not leave it out.
  bounds.delay = to_samples(std::max<std::int64_t>({start - bounds.first_pts, -bounds.first_pts, 0}), stream);
  auto track = read_mp4_track(input, stream);
  if (track && !input.follows_edits()) {
    track->edit.reset();
  } else if (track && (track->has_more_edits || track->has_other_speed())) {
    throw Error(ErrorKind::kDemux, "demux",
                "its edit list presents several parts of the sound, or at another speed, which is not supported: encode it as"
                " it is presented, with a program that follows such lists, or read all of its media with the option"
                " ignore_editlist=1")
        .in(input.name())
        .at(stream.index, {});
  }
  if (track && track->is_fragmented) {
    return;
  }
  const bool has_scale = track && stream.time_base.num == 1 && track->time_scale == stream.time_base.den;
  bounds.length = has_scale ? presented_ticks(*track) : std::nullopt;
  if (!track && stream.duration > 0) {
    bounds.length = stream.duration;
  }
  if (track && !track->edit) {
    const auto tagged = tagged_sound(input.context());
    if (tagged && stream.time_base.den == stream.codecpar->sample_rate) {
      bounds.delay = tagged->delay;
      bounds.length = tagged->length;
    } else if (bounds.length) {
      *bounds.length -= std::max<std::int64_t>(start - bounds.first_pts, 0);
    }
    // Nothing but the last packet is shortened by a header that counts wrong.
    if (last != nullptr && bounds.length && !tagged && bounds.first_pts + *bounds.length <= last->timestamp) {
      bounds.length.reset();
    }
  }
}

}  // namespace

std::int64_t start_position(const SoundBounds& bounds, AVRational time_base, int rate) noexcept {
  // A file may state any times.
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const std::int64_t first = std::clamp(av_rescale_q(bounds.first_pts, time_base, {1, rate}), -kMost, kMost);
  if (bounds.rate <= 0 || bounds.delay == 0) {
    return first;
  }
  const std::int64_t start = first + av_rescale(bounds.delay, rate, bounds.rate);
  const std::int64_t most = av_rescale(time_base.num, rate, time_base.den) + 1;
  return first < 0 && std::abs(start) <= most ? 0 : start;
}

SoundBounds read_sound_bounds(Input& input, int stream, std::int64_t start) {
  if (!input.is_at_start() && !is_mp4(input.context())) {
    input.reopen();
  }
  const AVFormatContext& context = input.context();
  AVStream& of = *context.streams[stream];
  const AVCodecParameters& parameters = *of.codecpar;
  SoundBounds bounds;
  bounds.is_timed = is_timed(context, parameters.codec_id);
  bounds.rate = parameters.sample_rate;
  bounds.first_pts = start;
  if (is_mp4(context)) {
    read_mp4_bounds(input, of, start, bounds);
    return bounds;
  }
  bounds.length = stated_samples(input, of);
  bounds.is_counted = bounds.length.has_value();
  if (is_plain(context, parameters)) {
    return bounds;
  }
  if (std::string_view(context.iformat->name) == "mp3") {
    bounds.first_pts = 0;
    bounds.delay = to_samples(start, of);
    return bounds;
  }
  const AVPacket* first = input.peek(0);
  for (std::size_t i = 1; first != nullptr && first->stream_index != stream; ++i) {
    first = input.peek(i);
  }
  if (first == nullptr) {
    return bounds;
  }
  if (first->pts != AV_NOPTS_VALUE) {
    bounds.first_pts = first->pts;
  }
  if (parameters.codec_id == AV_CODEC_ID_OPUS) {
    bounds.delay = opus_delay(parameters);
  } else if (is_matroska(context) && parameters.codec_id != AV_CODEC_ID_VORBIS) {
    bounds.delay = std::max(parameters.initial_padding, 0);
  }
  if (const std::int64_t marked = marked_delay(*first); marked > 0) {
    bounds.delay = marked;
  }
  return bounds;
}

void complete_sound_bounds(const Input& input, int stream, SoundBounds& bounds) {
  const AVStream& of = *input.context().streams[stream];
  if (!is_mp4(input.context()) || bounds.length || of.duration <= 0) {
    return;
  }
  // The end of all fragments, counted as their times are: before an edit list moves them.
  const std::int64_t moved = std::max<std::int64_t>(-bounds.first_pts, 0);
  const std::int64_t length = of.duration - moved - std::max<std::int64_t>(bounds.first_pts, 0);
  if (length > 0) {
    bounds.length = length;
  }
}

std::optional<std::int64_t> declared_samples(const Input& input, int stream, const SoundBounds& bounds) {
  AVStream& of = *input.context().streams[stream];
  const AVCodecParameters& parameters = *of.codecpar;
  if (is_mp4(input.context())) {
    const AVIndexEntry* last = avformat_index_get_entry(&of, avformat_index_get_entries_count(&of) - 1);
    if (!bounds.length || last == nullptr) {
      return std::nullopt;
    }
    const std::int64_t length = to_samples(*bounds.length, of);
    const auto packet = indexed_length(of);
    if (!is_padded(parameters.codec_id)) {
      return length;
    }
    if (!packet) {
      return std::nullopt;
    }
    // The last packet is cut off where the sound ends by its time. An edit may last longer than its media.
    const std::int64_t last_end = to_samples(last->timestamp - bounds.first_pts + *packet, of) - bounds.delay;
    const std::int64_t all = to_samples(avformat_index_get_entries_count(&of) * *packet, of) - bounds.delay;
    return all - std::max<std::int64_t>(last_end - length, 0);
  }
  if ((bounds.is_timed || bounds.is_counted) && bounds.length) {
    return to_samples(*bounds.length, of);
  }
  // AVI rounds the length of a stream up to whole pictures.
  const bool is_rounded = std::string_view(input.context().iformat->name) == "avi";
  const bool counts = is_plain(input.context(), parameters) && !is_rounded && !bounds.is_timed && of.duration > 0 &&
                      of.time_base.num == 1 && of.time_base.den == parameters.sample_rate;
  return counts ? std::optional(of.duration) : std::nullopt;
}

std::optional<int> num_kept_samples_in(const AVPacket& packet, const AVCodecParameters& parameters) {
  const std::optional<int> count = num_samples_in(packet, parameters);
  std::size_t size = 0;
  const std::uint8_t* side = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
  const std::uint32_t padding = side != nullptr && size >= kSkipSamples ? little_endian({side, size}, 4, 4) : 0;
  // The decoder takes no notice of more padding than there are samples.
  return count && padding <= static_cast<std::uint32_t>(*count) ? std::optional(*count - static_cast<int>(padding)) : count;
}

bool is_cheap_to_count(const Input& input) noexcept {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 19;
  const AVFormatContext& context = input.context();
  // The frames of MP3 are found by their headers, so a seek loses none.
  const bool is_mp3 = std::string_view(context.iformat->name) == "mp3";
  return !is_mp4(context) && !is_timed(context, context.streams[0]->codecpar->codec_id) && !is_mp3 && context.pb != nullptr &&
         avio_size(context.pb) <= kMostBytes;
}

std::optional<std::int64_t> count_samples(const std::vector<av::PacketPtr>& packets, const AVStream& stream,
                                          const SoundBounds& bounds) {
  std::int64_t total = -bounds.delay;
  for (const auto& packet : packets) {
    const std::optional<int> count = num_kept_samples_in(*packet, *stream.codecpar);
    if (!count) {
      return std::nullopt;
    }
    total += *count;
  }
  return bounds.length ? std::min(total, to_samples(*bounds.length, stream)) : total;
}

void mark_delay(AVPacket& first, const AVCodecParameters& parameters, const SoundBounds& bounds) {
  const bool is_left_out = parameters.codec_id == AV_CODEC_ID_OPUS || parameters.codec_id == AV_CODEC_ID_VORBIS;
  if (bounds.delay <= 0 || is_left_out || av_packet_get_side_data(&first, AV_PKT_DATA_SKIP_SAMPLES, nullptr) != nullptr) {
    return;
  }
  std::uint8_t* side = av_packet_new_side_data(&first, AV_PKT_DATA_SKIP_SAMPLES, kSkipSamples);
  if (side == nullptr) {
    throw std::bad_alloc();
  }
  std::memset(side, 0, kSkipSamples);
  for (std::size_t i = 0; i < 4; ++i) {
    side[i] = static_cast<std::uint8_t>(bounds.delay >> (8 * i));
  }
}

std::optional<int> num_samples_in(const AVPacket& packet, const AVCodecParameters& parameters) {
  switch (parameters.codec_id) {
    case AV_CODEC_ID_OPUS:
      return num_opus_samples(bytes_of(packet));
    case AV_CODEC_ID_FLAC:
      return num_flac_samples(bytes_of(packet));
    case AV_CODEC_ID_AAC:
    case AV_CODEC_ID_AAC_LATM:
      return parameters.frame_size > 1 ? std::optional(parameters.frame_size) : std::nullopt;
    case AV_CODEC_ID_MP1:
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
    case AV_CODEC_ID_AC3:
      break;
    default:
      if (av_get_bits_per_sample(parameters.codec_id) == 0) {
        return std::nullopt;
      }
  }
  AVCodecParameters copy = parameters;  // which is not const for libav, and not changed
  const int count = av_get_audio_frame_duration2(&copy, packet.size);
  return count > 0 ? std::optional(count) : std::nullopt;
}

std::optional<std::int64_t> index_of(const std::vector<av::PacketPtr>& packets, const Input& input, int stream,
                                     const SoundBounds& bounds) {
  AVStream& of = *input.context().streams[stream];
  const AVCodecParameters& parameters = *of.codecpar;
  if (packets.empty() || packets.front()->pts == AV_NOPTS_VALUE || parameters.sample_rate <= 0) {
    return std::nullopt;
  }
  if (std::string_view(input.context().iformat->name) == "mp3" && bounds.delay > 0 && of.duration > 0 &&
      packets.front()->pts >= of.duration) {
    return std::nullopt;  // behind the padding at the end of a file that was joined to others
  }
  const std::int64_t ticks = packets.front()->pts - bounds.first_pts;
  const AVRational tick = av_mul_q(of.time_base, {parameters.sample_rate, 1});
  const std::optional<int> size = num_samples_in(*packets.front(), parameters);
  // A tick is a sample, or a packet.
  const bool is_exact = tick.den == 1 && (tick.num == 1 || tick.num == size);
  if (!size) {
    // Times tell where exact ones come from the sum of all packets before.
    const bool is_told = is_exact && is_mp4(input.context()) && is_unbroken(of, packets.front()->pts, bounds.first_pts);
    return is_told ? std::optional(to_samples(ticks, of)) : std::nullopt;
  }
  // Both times may be rounded.
  const std::int64_t most = is_exact ? 0 : tick.num / tick.den + 2;
  std::int64_t index = to_samples(ticks, of);
  if (!is_exact) {
    if (*size <= 2 * most) {
      return std::nullopt;
    }
    const std::int64_t on_grid = av_rescale(index, 1, *size) * *size;
    if (std::abs(on_grid - index) > most) {
      return std::nullopt;
    }
    index = on_grid;
  }
  std::int64_t next = index;
  for (const auto& packet : packets) {
    const std::optional<int> count = num_samples_in(*packet, parameters);
    if (!count || packet->pts == AV_NOPTS_VALUE ||
        std::abs(to_samples(packet->pts - bounds.first_pts, of) - next) > most) {
      return std::nullopt;
    }
    next += *count;
  }
  if (is_mp4(input.context()) && bounds.length && !is_unbroken(of, packets.front()->pts, bounds.first_pts)) {
    return std::nullopt;
  }
  return index;
}

}  // namespace spdl
