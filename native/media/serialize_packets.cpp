#include "media/serialize_packets.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <array>
#include <climits>
#include <string_view>
#include <utility>

#include "av/check.h"
#include "av/colours.h"
#include "av/compat.h"
#include "av/names.h"
#include "media/byte_stream.h"
#include "media/serialize_fields.h"

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr const char* kAction = "restore packets from bytes";
constexpr std::array<std::uint8_t, 7> kName = {'S', 'P', 'D', 'L', 'P', 'K', 'T'};
constexpr std::uint8_t kAllInBand = 1;
constexpr std::uint8_t kSomeOutOfBand = 2;
constexpr std::size_t kHeaderBytes = kName.size() + 1 + 2 * sizeof(std::uint64_t);
constexpr std::size_t kPadding = AV_INPUT_BUFFER_PADDING_SIZE;

// Those of a stream's codec that are plain numbers and that the containers set.
template <class Parameters, class Visit>
void visit_numbers(Parameters& p, Visit&& visit) {
  visit(p.codec_tag);
  visit(p.bit_rate);
  visit(p.bits_per_coded_sample);
  visit(p.bits_per_raw_sample);
  visit(p.profile);
  visit(p.level);
  visit(p.width);
  visit(p.height);
  visit(p.sample_aspect_ratio.num);
  visit(p.sample_aspect_ratio.den);
  visit(p.field_order);
  visit(p.color_range);
  visit(p.color_primaries);
  visit(p.color_trc);
  visit(p.color_space);
  visit(p.chroma_location);
  visit(p.video_delay);
  visit(p.sample_rate);
  visit(p.block_align);
  visit(p.frame_size);
  visit(p.initial_padding);
  visit(p.trailing_padding);
  visit(p.seek_preroll);
}

void write_codec(ByteWriter& out, const Codec& codec) {
  const AVCodecParameters& parameters = *codec.parameters;
  write_rational(out, codec.time_base);
  write_rational(out, codec.frame_rate);
  out.number(static_cast<std::uint8_t>(codec.is_complete));
  out.text(avcodec_get_name(parameters.codec_id));
  out.text(codec.type == MediaType::kAudio ? av::sample_format_name(parameters.format)
                                           : av::pixel_format_name(parameters.format));
  visit_numbers(parameters, [&](const auto& value) { out.number(value); });
  write_layout(out, parameters.ch_layout);
  out.block({parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0))});
  const auto side_data = av::coded_side_data(parameters);
  out.number(static_cast<std::uint64_t>(side_data.size()));
  for (const auto& [type, data] : side_data) {
    out.number(static_cast<std::int32_t>(type));
    out.block(data);
  }
}

AVPacketSideDataType read_side_data_type(ByteReader& in) {
  const auto number = in.number<std::int32_t>();
  if (!av::can_hold<AV_PKT_DATA_NB>(number)) {
    in.refuse("side data has an unknown type");
  }
  return static_cast<AVPacketSideDataType>(number);
}

CodecPtr read_codec(ByteReader& in, MediaType type) {
  auto codec = std::make_shared<Codec>();
  codec->type = type;
  codec->time_base = read_rational(in);
  codec->frame_rate = read_rational(in);
  codec->is_complete = in.number<std::uint8_t>() != 0;
  codec->parameters = av::own<av::CodecParametersPtr>(avcodec_parameters_alloc());
  AVCodecParameters& parameters = *codec->parameters;
  const std::string name = in.text();
  const AVCodecDescriptor* descriptor = avcodec_descriptor_get_by_name(name.c_str());
  if (descriptor == nullptr) {
    in.refuse("this FFmpeg does not know the codec '" + name + "'");
  }
  parameters.codec_id = descriptor->id;
  parameters.codec_type = type == MediaType::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
  const std::string format = in.text();
  parameters.format = type == MediaType::kAudio ? static_cast<int>(av_get_sample_fmt(format.c_str()))
                                                : static_cast<int>(av_get_pix_fmt(format.c_str()));
  visit_numbers(parameters, [&](auto& value) {
    using Number = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_enum_v<Number>) {
      av::set_if_known(value, in.number<int>());
    } else {
      value = in.number<Number>();
    }
  });
  read_layout(in, parameters.ch_layout);
  if (const Bytes extradata = in.block(); !extradata.empty()) {
    if (extradata.size() > INT_MAX - kPadding) {
      in.refuse("a codec's data is too large");
    }
    parameters.extradata = static_cast<std::uint8_t*>(av_mallocz(extradata.size() + kPadding));
    if (parameters.extradata == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(extradata.begin(), extradata.end(), parameters.extradata);
    parameters.extradata_size = static_cast<int>(extradata.size());
  }
  for (std::size_t left = in.size(); left > 0; --left) {
    const AVPacketSideDataType kind = read_side_data_type(in);
    av::add_coded_side_data(parameters, kind, in.block());
  }
  return codec;
}

void write_packet(ByteWriter& out, const AVPacket& packet) {
  out.number(packet.pts);
  out.number(packet.dts);
  out.number(packet.duration);
  out.number(packet.pos);
  out.number(static_cast<std::int32_t>(packet.flags));
  out.number(static_cast<std::int32_t>(packet.size));
  out.number(static_cast<std::uint64_t>(packet.side_data_elems));
  for (int i = 0; i < packet.side_data_elems; ++i) {
    const AVPacketSideData& side_data = packet.side_data[i];
    out.number(static_cast<std::int32_t>(side_data.type));
    out.block({side_data.data, side_data.size});
  }
}

// Its size is set; its data comes later.
av::PacketPtr read_packet(ByteReader& in, int stream_index) {
  av::PacketPtr packet = av::new_packet();
  packet->stream_index = stream_index;
  packet->pts = in.number<std::int64_t>();
  packet->dts = in.number<std::int64_t>();
  packet->duration = in.number<std::int64_t>();
  packet->pos = in.number<std::int64_t>();
  packet->flags = in.number<std::int32_t>();
  packet->size = in.number<std::int32_t>();
  if (packet->size < 0) {
    in.refuse("the size of a packet is negative");
  }
  for (std::size_t left = in.size(); left > 0; --left) {
    const AVPacketSideDataType type = read_side_data_type(in);
    const Bytes data = in.block();
    std::uint8_t* copy = av_packet_new_side_data(packet.get(), type, data.size());
    if (copy == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(data.begin(), data.end(), copy);
  }
  return packet;
}

void write_sound(ByteWriter& out, const Packets& packets) {
  const SoundBounds& sound = packets.sound;
  out.number(static_cast<std::uint8_t>(packets.clock == SoundClock::kFirstSample));
  out.number(static_cast<std::uint8_t>(sound.is_timed));
  out.number(static_cast<std::uint8_t>(sound.is_counted));
  out.number(sound.first_pts);
  out.number(sound.delay);
  out.number(static_cast<std::int32_t>(sound.rate));
  out.number(sound.length.value_or(-1));
  out.number(static_cast<std::uint8_t>(sound.begins_stream));
  out.number(sound.first_index);
}

void read_sound(ByteReader& in, Packets& packets) {
  // Far from where sums of them overflow.
  constexpr std::int64_t kMost = std::int64_t{1} << 52;
  SoundBounds& sound = packets.sound;
  packets.clock = in.number<std::uint8_t>() != 0 ? SoundClock::kFirstSample : SoundClock::kStream;
  sound.is_timed = in.number<std::uint8_t>() != 0;
  sound.is_counted = in.number<std::uint8_t>() != 0;
  sound.first_pts = in.number<std::int64_t>();
  sound.delay = in.number<std::int64_t>();
  sound.rate = in.number<std::int32_t>();
  const auto length = in.number<std::int64_t>();
  if (length >= 0) {
    sound.length = length;
  }
  sound.begins_stream = in.number<std::uint8_t>() != 0;
  sound.first_index = in.number<std::int64_t>();
  if (sound.delay < 0 || sound.delay > kMost || sound.rate < 0 || length > kMost || sound.first_index < 0 ||
      sound.first_index > kMost) {
    in.refuse("the bounds of the sound are not valid");
  }
}

void write_description(ByteWriter& out, const Packets& packets) {
  out.number(static_cast<std::uint8_t>(packets.type));
  out.text(packets.source);
  out.number(static_cast<std::int32_t>(packets.stream_index));
  write_rational(out, packets.time_base);
  out.number(packets.start);
  out.number(static_cast<std::int32_t>(packets.num_errors));
  out.number(static_cast<std::uint8_t>(packets.window.has_value()));
  if (packets.window) {
    out.number(packets.window->start);
    out.number(packets.window->end);
  }
  write_sound(out, packets);
  out.number(static_cast<std::uint8_t>(packets.codec != nullptr));
  if (packets.codec) {
    write_codec(out, *packets.codec);
  }
  out.number(static_cast<std::uint64_t>(packets.packets.size()));
  for (const auto& packet : packets.packets) {
    write_packet(out, *packet);
  }
}

Packets read_description(Bytes description) {
  ByteReader in(description, kAction);
  Packets packets;
  const auto type = in.number<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(MediaType::kImage)) {
    in.refuse("their media type is unknown");
  }
  packets.type = static_cast<MediaType>(type);
  packets.source = in.text();
  packets.stream_index = in.number<std::int32_t>();
  packets.time_base = read_rational(in);
  if (packets.time_base.num < 0 || packets.time_base.den <= 0) {
    in.refuse("the time base is not valid");
  }
  packets.start = in.number<std::int64_t>();
  packets.num_errors = in.number<std::int32_t>();
  if (in.number<std::uint8_t>() != 0) {
    const auto start = in.number<double>();
    packets.window = TimeWindow{start, in.number<double>()};
  }
  read_sound(in, packets);
  if (in.number<std::uint8_t>() != 0) {
    packets.codec = read_codec(in, packets.type);
  }
  const std::size_t count = in.size();
  packets.packets.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    packets.packets.push_back(read_packet(in, packets.stream_index));
  }
  if (in.num_left() != 0) {
    in.refuse("there is trailing data");
  }
  return packets;
}

// Makes the packet's data what is there, shared and never written to.
void attach(AVPacket& packet, Bytes data, const SharedBytes& owner) {
  packet.data = const_cast<std::uint8_t*>(data.data());
  packet.buf = reference_to(owner, data).release();
}

bool is_zero(Bytes data) noexcept {
  return std::all_of(data.begin(), data.end(), [](std::uint8_t byte) { return byte == 0; });
}

// A packet's data with its padding.
Bytes padded(const AVPacket& packet) noexcept {
  return {packet.data, static_cast<std::size_t>(packet.size) + kPadding};
}

// Whether its data is large enough to go out of band, and is padded as it has to be.
bool is_out_of_band(const AVPacket& packet) noexcept {
  if (packet.buf == nullptr || static_cast<std::size_t>(packet.size) < kMinOutOfBand) {
    return false;
  }
  const auto before = packet.data - packet.buf->data;
  return before >= 0 && padded(packet).size() + static_cast<std::size_t>(before) <= packet.buf->size &&
         is_zero(padded(packet).last(kPadding));
}

// One for each packet: 1 if its data is out of band. Empty if all is in band.
using BandFlags = std::vector<std::uint8_t>;

void write(ByteWriter& out, const Packets& packets, const BandFlags& is_outside, std::size_t description_size,
           std::uint64_t description_hash) {
  out.bytes(kName);
  out.number(is_outside.empty() ? kAllInBand : kSomeOutOfBand);
  out.number(static_cast<std::uint64_t>(description_size));
  out.number(description_hash);
  write_description(out, packets);
  out.bytes(is_outside);
  for (std::size_t i = 0; i < packets.packets.size(); ++i) {
    const AVPacket& packet = *packets.packets[i];
    if (is_outside.empty() || is_outside[i] == 0) {
      out.bytes({packet.data, static_cast<std::size_t>(packet.size)});
      out.zeros(kPadding);
    }
  }
}

std::size_t size_of(const Packets& packets, const BandFlags& is_outside) {
  ByteWriter counter(nullptr);
  write(counter, packets, is_outside, 0, 0);
  return counter.size();
}

// Writes `size_of` bytes.
void write(std::uint8_t* out, const Packets& packets, const BandFlags& is_outside) {
  ByteWriter description(out + kHeaderBytes);
  write_description(description, packets);
  ByteWriter all(out);
  write(all, packets, is_outside, description.size(), hash_of({out + kHeaderBytes, description.size()}));
}

}  // namespace

std::size_t serialized_size(const Packets& packets) { return size_of(packets, {}); }

void serialize(const Packets& packets, std::uint8_t* out) { write(out, packets, {}); }

Serialized serialize(const Packets& packets) {
  Serialized serialized;
  BandFlags is_outside;
  for (const auto& packet : packets.packets) {
    is_outside.push_back(is_out_of_band(*packet) ? 1 : 0);
    if (is_outside.back() != 0) {
      serialized.out_of_band.push_back(share(*packet->buf, padded(*packet)));
    }
  }
  if (serialized.out_of_band.empty()) {
    is_outside.clear();
  }
  const std::size_t size = size_of(packets, is_outside);
  Buffer memory(size);
  write(memory.data(), packets, is_outside);
  serialized.in_band = share(std::move(memory), size);
  return serialized;
}

Packets deserialize_packets(const SharedBytes& in_band, std::span<const SharedBytes> out_of_band) {
  ByteReader in(in_band.bytes, kAction);
  const Bytes name = in_band.bytes.first(std::min(in_band.bytes.size(), kName.size()));
  if (!std::equal(name.begin(), name.end(), kName.begin(), kName.end())) {
    in.refuse("the data does not begin with the signature of packets");
  }
  in.bytes(kName.size());
  const auto version = in.number<std::uint8_t>();
  if (version != kAllInBand && version != kSomeOutOfBand) {
    in.refuse("they have an unsupported version");
  }
  const auto description_size = in.number<std::uint64_t>();
  const auto expected = in.number<std::uint64_t>();
  if (description_size > in.num_left()) {
    in.refuse("the data ends early");
  }
  const Bytes description = in.bytes(static_cast<std::size_t>(description_size));
  if (hash_of(description) != expected) {
    in.refuse("the data is damaged");
  }
  Packets packets = read_description(description);
  const Bytes is_outside = version == kSomeOutOfBand ? in.bytes(packets.packets.size()) : Bytes();
  for (std::size_t i = 0; i < packets.packets.size(); ++i) {
    AVPacket& packet = *packets.packets[i];
    const std::size_t size = static_cast<std::size_t>(packet.size) + kPadding;
    const SharedBytes* owner = &in_band;
    Bytes data;
    if (is_outside.empty() || is_outside[i] == 0) {
      data = in.bytes(size);
    } else {
      if (out_of_band.empty() || out_of_band.front().bytes.size() != size) {
        in.refuse("an out-of-band buffer belongs to other packets");
      }
      owner = &out_of_band.front();
      data = owner->bytes;
      out_of_band = out_of_band.subspan(1);
    }
    if (!is_zero(data.last(kPadding))) {
      in.refuse("the data is damaged");
    }
    attach(packet, data, *owner);
  }
  if (in.num_left() != 0 || !out_of_band.empty()) {
    in.refuse("there is trailing data");
  }
  return packets;
}

}  // namespace spdl
