#include "media/ogg_sound.h"

extern "C" {
#include <libavcodec/vorbis_parser.h>
#include <libavformat/avio.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "image/bytes.h"
#include "media/block_reader.h"
#include "media/flac_header.h"

namespace spdl {
namespace {

using VorbisParserPtr = std::unique_ptr<AVVorbisParseContext, av::FreeByAddress<&av_vorbis_parse_free>>;

// In samples at 48 kHz (RFC 6716, section 3.1).
std::optional<std::int64_t> opus_duration(Bytes packet) noexcept {
  if (packet.empty()) {
    return std::nullopt;
  }
  constexpr std::int64_t kMost = 5760;  // 120 ms
  constexpr std::array<std::int64_t, 4> kSilk = {480, 960, 1920, 2880};
  const unsigned config = packet[0] >> 3;
  const std::int64_t of_frame = config < 12   ? kSilk[config & 3]
                                : config < 16 ? 480 << (config & 1)
                                              : 120 << (config & 3);
  const unsigned code = packet[0] & 3;
  const std::int64_t num_frames = code == 0 ? 1 : code < 3 ? 2 : byte_at(packet, 1) & 0x3f;
  const std::int64_t duration = of_frame * num_frames;
  return duration > 0 && duration <= kMost ? std::optional(duration) : std::nullopt;
}

std::optional<std::int64_t> flac_duration(Bytes packet) noexcept {
  if (packet.empty()) {
    return 0;  // FFmpeg's encoder ends with one
  }
  const auto header = parse_flac_header(packet);
  return header ? std::optional<std::int64_t>(header->num_samples) : std::nullopt;
}

}  // namespace

std::optional<OggSound> ogg_sound_of(const AVCodecParameters& parameters) {
  if (parameters.codec_id == AV_CODEC_ID_OPUS) {
    // Number of samples to leave out in front (RFC 7845, section 5.1).
    const Bytes head(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
    constexpr std::size_t kShortest = 19;
    if (head.size() < kShortest) {
      return std::nullopt;
    }
    return OggSound{opus_duration, -static_cast<std::int64_t>(little_endian(head, 10, 2)), 2, true, false};
  }
  if (parameters.codec_id == AV_CODEC_ID_FLAC) {
    // The first packet states the number of the others (RFC 9639, section 10.1); those who need it look there.
    return OggSound{flac_duration, 0, 1, false, false};
  }
  if (parameters.codec_id != AV_CODEC_ID_VORBIS) {
    return std::nullopt;
  }
  std::shared_ptr<AVVorbisParseContext> parser =
      VorbisParserPtr(av_vorbis_parse_init(parameters.extradata, parameters.extradata_size));
  if (!parser) {
    return std::nullopt;
  }
  return OggSound{[parser](Bytes packet) -> std::optional<std::int64_t> {
                 int flags = 0;  // of packets that are headers
                 const int duration =
                     av_vorbis_parse_frame_flags(parser.get(), packet.data(), static_cast<int>(packet.size()), &flags);
                 return duration > 0 && flags == 0 ? std::optional<std::int64_t>(duration) : std::nullopt;
               },
               0, 3, false, true};
}

av::PacketPtr make_ogg_packet(const OggPacket& from, const OggSound& sound, int stream) {
  av::PacketPtr packet = av::new_packet();
  if (av_new_packet(packet.get(), static_cast<int>(from.bytes.size())) < 0) {
    throw std::bad_alloc();
  }
  std::memcpy(packet->data, from.bytes.data(), from.bytes.size());
  packet->pts = packet->dts = from.first + sound.pts_of_zero;
  packet->duration =
      sound.has_short_end ? std::max<std::int64_t>(from.duration - from.num_unwanted, 1) : from.duration;
  packet->pos = from.position;
  packet->flags |= AV_PKT_FLAG_KEY;
  packet->stream_index = stream;
  if (from.num_unwanted > 0) {
    constexpr std::size_t kSkipSamples = 10;
    std::uint8_t* side = av_packet_new_side_data(packet.get(), AV_PKT_DATA_SKIP_SAMPLES, kSkipSamples);
    if (side == nullptr) {
      throw std::bad_alloc();
    }
    std::memset(side, 0, kSkipSamples);
    for (std::size_t i = 0; i < 4; ++i) {
      side[4 + i] = static_cast<std::uint8_t>(from.num_unwanted >> (8 * i));
    }
  }
  return packet;
}

namespace {

constexpr std::size_t kFlacInfo = 17;  // where STREAMINFO is in the first packet
constexpr std::size_t kFlacInfoBytes = 34;

// What a link says of itself in its first packets.
struct Headers {
  AVCodecID codec = AV_CODEC_ID_NONE;
  std::vector<std::uint8_t> extradata;
  unsigned rate = 0;
  unsigned num_channels = 0;
  std::size_t count = 0;
};

// The first `count` packets of the stream that begins there; fewer if something is not valid.
std::vector<std::vector<std::uint8_t>> first_packets(std::int64_t position, std::size_t count, const BytesAt& bytes_at) {
  constexpr int kMostPages = 64;
  constexpr std::size_t kPiece = 4096;
  constexpr std::size_t kFixedHeader = 27;
  std::vector<std::vector<std::uint8_t>> packets(1);
  auto page = read_ogg_page(position, bytes_at);
  for (int i = 0; i < kMostPages && page && packets.size() <= count; ++i) {
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < page->num_bytes) {
      const auto piece = bytes_at(page->position + static_cast<std::int64_t>(bytes.size()),
                                  std::min(page->num_bytes - bytes.size(), kPiece));
      if (piece.empty()) {
        packets.pop_back();
        return packets;
      }
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    std::size_t at = page->num_header_bytes;
    for (std::size_t k = kFixedHeader; k < page->num_header_bytes && packets.size() <= count; ++k) {
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      packets.back().insert(packets.back().end(), from, from + bytes[k]);
      at += bytes[k];
      if (bytes[k] < 255) {
        packets.emplace_back();
      }
    }
    const std::uint32_t serial = page->serial;
    page = read_ogg_page(page->end(), bytes_at);
    if (page && page->serial != serial) {
      break;
    }
  }
  packets.pop_back();
  return packets;
}

// As libav has the three headers of Vorbis: their number, their sizes, and all of them.
std::vector<std::uint8_t> joined(const std::vector<std::vector<std::uint8_t>>& packets) {
  std::vector<std::uint8_t> all{2};
  for (std::size_t i = 0; i < 2; ++i) {
    all.insert(all.end(), packets[i].size() / 255, 255);
    all.push_back(static_cast<std::uint8_t>(packets[i].size() % 255));
  }
  for (const auto& packet : packets) {
    all.insert(all.end(), packet.begin(), packet.end());
  }
  return all;
}

std::optional<Headers> headers_at(std::int64_t position, const BytesAt& bytes_at) {
  const auto packets = first_packets(position, 3, bytes_at);
  if (packets.empty()) {
    return std::nullopt;
  }
  const Bytes first = packets[0];
  Headers headers;
  if (has_name(first, 0, "\x01vorbis") && packets.size() == 3) {
    headers = {AV_CODEC_ID_VORBIS, joined(packets), little_endian(first, 12, 4), byte_at(first, 11), 3};
  } else if (has_name(first, 0, "OpusHead")) {
    headers = {AV_CODEC_ID_OPUS, packets[0], 48000, byte_at(first, 9), 2};
  } else if (has_name(first, 0, "\x7f""FLAC") && first.size() >= kFlacInfo + kFlacInfoBytes) {
    const Bytes info = first.subspan(kFlacInfo, kFlacInfoBytes);
    headers = {AV_CODEC_ID_FLAC, {info.begin(), info.end()}, big_endian(info, 10, 3) >> 4,
               (byte_at(info, 12) >> 1 & 7) + 1, std::size_t{1} + big_endian(first, 7, 2)};
  } else {
    return std::nullopt;
  }
  return headers;
}

av::CodecParametersPtr with_extradata(const AVCodecParameters& parameters, const std::vector<std::uint8_t>& extradata) {
  auto copy = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  if (avcodec_parameters_copy(copy.get(), &parameters) < 0) {
    throw std::bad_alloc();
  }
  av_freep(&copy->extradata);
  copy->extradata = static_cast<std::uint8_t*>(av_mallocz(extradata.size() + AV_INPUT_BUFFER_PADDING_SIZE));
  if (copy->extradata == nullptr) {
    throw std::bad_alloc();
  }
  std::copy(extradata.begin(), extradata.end(), copy->extradata);
  copy->extradata_size = static_cast<int>(extradata.size());
  return copy;
}

// Where each stream begins and which page is its last one with a granule position; none if streams lie beside each other.
std::optional<std::vector<OggLink>> divide(std::int64_t file_size, const BytesAt& bytes_at) {
  std::vector<OggLink> links;
  for (std::int64_t at = 0; at < file_size;) {
    const auto page = read_ogg_page(at, bytes_at);
    if (!page || page->end() > file_size || (links.empty() && !page->is_first)) {
      return std::nullopt;
    }
    if (page->is_first) {
      if (!links.empty() && links.back().end == 0) {
        return std::nullopt;
      }
      links.emplace_back();
      links.back().begin = at;
    } else {
      links.back().end = page->end();
    }
    if (page->granule != kNoGranule) {
      links.back().last_granule = page->granule;
    }
    at = page->end();
  }
  return links.empty() || links.back().end == 0 ? std::nullopt : std::optional(std::move(links));
}

// Whether pages are counted anew somewhere between the first and the last one, which have the same serial number.
bool begins_anew(const OggPage& first, const OggPage& last, std::int64_t file_size, const BytesAt& bytes_at) {
  constexpr std::size_t kPiece = 4096;
  constexpr int kPieces = 17;  // of the longest page
  std::uint32_t before = 0;
  for (const int quarter : {1, 2, 3}) {
    std::int64_t at = file_size / 4 * quarter;
    for (int i = 0; i < kPieces; ++i) {
      const auto bytes = bytes_at(at, kPiece);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const std::size_t found = text.find("OggS");
      if (found != std::string_view::npos) {
        const auto page = read_ogg_page(at + static_cast<std::int64_t>(found), bytes_at);
        if (page && (page->is_first || page->serial != first.serial || page->number < before || page->number > last.number)) {
          return true;
        }
        before = page ? page->number : before;
        break;
      }
      at += static_cast<std::int64_t>(kPiece) - 3;
    }
  }
  return false;
}

[[noreturn]] void refuse(const Input& input, std::size_t number, const Headers& link, const Headers& first) {
  const auto text = [](const Headers& headers) {
    return std::string(avcodec_get_name(headers.codec)) + " at " + std::to_string(headers.rate) + " Hz with " +
           std::to_string(headers.num_channels) + " channels";
  };
  throw Error(ErrorKind::kDemux, "read",
              "it is a chain of Ogg streams of different kinds: the first is " + text(first) + ", number " +
                  std::to_string(number + 1) + " is " + text(link) + "; divide the file into its streams")
      .in(input.name());
}

BlockReader reader_of(Input& input) {
  return BlockReader([&input](std::int64_t position, std::span<std::uint8_t> into) { return input.read_at(position, into); });
}

// Sets what only the first packets tell. False if they are not valid.
bool measure(OggLink& link, const AVCodecParameters& parameters, const BytesAt& bytes_at) {
  auto sound = ogg_sound_of(parameters);
  if (!sound) {
    return false;
  }
  if (parameters.codec_id == AV_CODEC_ID_FLAC) {
    const auto headers = headers_at(link.begin, bytes_at);
    sound->num_headers = headers ? headers->count : 0;
  }
  const auto page = find_first_ogg_page(link.end, sound->num_headers, bytes_at, link.begin);
  if (!page) {
    return false;
  }
  OggPackets packets(*page, true, link.end, bytes_at, sound->duration_of);
  if (sound->is_first_silent) {
    packets.set_first_is_silent();
  }
  const auto packet = packets.next();
  if (!packet) {
    return false;
  }
  // Samples before granule position 0 are none of the sound (Vorbis I, appendix A.2; RFC 7845, section 4.3).
  link.first = std::max<std::int64_t>(packet->first, 0);
  link.num_samples = link.last_granule - link.first + sound->pts_of_zero;
  return link.num_samples > 0;
}

}  // namespace

std::int64_t OggChain::num_samples() const noexcept {
  std::int64_t sum = 0;
  for (const OggLink& link : links) {
    sum += link.num_samples;
  }
  return sum;
}

std::optional<OggChain> find_ogg_chain(Input& input, int stream) {
  const AVFormatContext& context = input.context();
  const AVStream& of = *context.streams[stream];
  if (std::string_view(context.iformat->name) != "ogg" || context.nb_streams != 1 || of.time_base.num != 1 ||
      (context.pb->seekable & AVIO_SEEKABLE_NORMAL) == 0) {
    return std::nullopt;
  }
  const std::int64_t file_size = avio_size(context.pb);
  BlockReader reader = reader_of(input);
  const BytesAt bytes_at = std::ref(reader);
  const auto first = read_ogg_page(0, bytes_at);
  const auto last = find_last_ogg_page(file_size, bytes_at);
  if (!first || !last) {
    return std::nullopt;
  }
  OggChain chain;
  if (first->serial == last->serial && !begins_anew(*first, *last, file_size, bytes_at)) {
    chain.links.push_back({0, file_size, 0, last->granule, 0, {}});
    const bool is_known = of.codecpar->codec_id == AV_CODEC_ID_VORBIS || of.codecpar->codec_id == AV_CODEC_ID_OPUS;
    return is_known && last->granule > 0 && measure(chain.links[0], *of.codecpar, bytes_at) ? std::optional(chain)
                                                                                            : std::nullopt;
  }
  auto links = divide(file_size, bytes_at);
  const auto kind = headers_at(0, bytes_at);
  if (!links || !kind || kind->codec != of.codecpar->codec_id) {
    return std::nullopt;
  }
  chain.links = std::move(*links);
  for (std::size_t i = 0; i < chain.links.size(); ++i) {
    auto headers = headers_at(chain.links[i].begin, bytes_at);
    if (headers && (headers->codec != kind->codec || headers->rate != kind->rate || headers->num_channels != kind->num_channels)) {
      refuse(input, i, *headers, *kind);
    }
    if (headers) {
      chain.links[i].extradata = std::move(headers->extradata);
    }
    if (!headers || !measure(chain.links[i], *with_extradata(*of.codecpar, chain.links[i].extradata), bytes_at)) {
      if (i == 0) {
        return std::nullopt;
      }
      chain.links.resize(i);
      chain.is_whole = false;
    }
  }
  return chain;
}

OggChainReader::OggChainReader(Input& input, int stream, OggChain chain)
    : input_(input),
      stream_(stream),
      chain_(std::move(chain)),
      reader_(reader_of(input)),
      bytes_at_(std::ref(reader_)),
      start_(chain_.links.front().first),
      is_whole_(chain_.is_whole) {}

bool OggChainReader::begin_link() {
  const AVCodecParameters& common = *input_.context().streams[stream_]->codecpar;
  const OggLink& link = chain_.links[link_];
  const auto parameters = link.extradata.empty() ? nullptr : with_extradata(common, link.extradata);
  sound_ = ogg_sound_of(parameters ? *parameters : common);
  if (common.codec_id == AV_CODEC_ID_FLAC) {
    const auto headers = headers_at(link.begin, bytes_at_);
    sound_->num_headers = headers ? headers->count : 0;
  }
  const auto page = find_first_ogg_page(link.end, sound_->num_headers, bytes_at_, link.begin);
  if (!page) {
    return false;
  }
  packets_.emplace(*page, true, link.end, bytes_at_, sound_->duration_of);
  if (sound_->is_first_silent) {
    packets_->set_first_is_silent();
  }
  begins_ = link_ > 0;
  return true;
}

av::PacketPtr OggChainReader::next() {
  while (link_ < chain_.links.size()) {
    const OggLink& link = chain_.links[link_];
    if (!packets_ && !begin_link()) {
      break;
    }
    while (const auto packet = packets_->next()) {
      if (packet->bytes.empty()) {
        continue;
      }
      av::PacketPtr made = make_ogg_packet(*packet, *sound_, stream_);
      made->pts = made->dts = made->pts + start_ - link.first;
      if (std::exchange(begins_, false)) {
        std::uint8_t* side = av_packet_new_side_data(made.get(), AV_PKT_DATA_NEW_EXTRADATA, link.extradata.size());
        if (side == nullptr) {
          throw std::bad_alloc();
        }
        std::copy(link.extradata.begin(), link.extradata.end(), side);
      }
      return made;
    }
    if (packets_->has_failed()) {
      break;
    }
    packets_.reset();
    start_ += link.num_samples;
    ++link_;
  }
  is_whole_ = is_whole_ && link_ == chain_.links.size();
  return nullptr;
}

OggState check_ogg(Input& input, std::int64_t first, std::int64_t last) {
  const AVFormatContext& context = input.context();
  if (std::string_view(context.iformat->name) != "ogg" || context.pb == nullptr ||
      (context.pb->seekable & AVIO_SEEKABLE_NORMAL) == 0 || avio_size(context.pb) <= 0) {
    return OggState::kWhole;
  }
  BlockReader reader = reader_of(input);
  return check_ogg_pages(first, last, avio_size(context.pb), std::ref(reader));
}

}  // namespace spdl
