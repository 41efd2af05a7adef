#include "media/serialize.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/channel_layout.h>
#include <libavutil/pixdesc.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <array>
#include <climits>
#include <string_view>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "av/names.h"
#include "media/byte_stream.h"

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::array<std::uint8_t, 8> kMagic = {'S', 'P', 'D', 'L', 'P', 'K', 'T', 1};
constexpr std::size_t kHeaderBytes = kMagic.size() + 2 * sizeof(std::uint64_t);
constexpr std::size_t kPadding = AV_INPUT_BUFFER_PADDING_SIZE;

// By G. Fowler, L. C. Noll and K.-P. Vo, 64 bits.
std::uint64_t hash(Bytes data) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const std::uint8_t byte : data) {
    value = (value ^ byte) * 0x100000001b3;
  }
  return value;
}

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

void write_rational(ByteWriter& out, AVRational value) noexcept {
  out.number(value.num);
  out.number(value.den);
}

AVRational read_rational(ByteReader& in) {
  const int num = in.number<int>();
  return {num, in.number<int>()};
}

void write_layout(ByteWriter& out, const AVChannelLayout& layout) noexcept {
  const bool is_custom = layout.order == AV_CHANNEL_ORDER_CUSTOM;
  out.number(static_cast<std::int32_t>(layout.order));
  out.number(layout.nb_channels);
  out.number(is_custom ? std::uint64_t{0} : layout.u.mask);
  for (int i = 0; is_custom && i < layout.nb_channels; ++i) {
    out.number(static_cast<std::int32_t>(layout.u.map[i].id));
  }
}

void read_layout(ByteReader& in, AVChannelLayout& layout) {
  const auto order = in.number<std::int32_t>();
  const auto num_channels = in.number<std::int32_t>();
  const auto mask = in.number<std::uint64_t>();
  if (num_channels < 0 || num_channels > 1024) {
    ByteReader::refuse("a channel layout is not valid");
  }
  layout.order = static_cast<AVChannelOrder>(order);
  layout.nb_channels = num_channels;
  if (order == AV_CHANNEL_ORDER_CUSTOM) {
    layout.u.map = static_cast<AVChannelCustom*>(
        av_calloc(static_cast<std::size_t>(std::max(num_channels, 1)), sizeof(AVChannelCustom)));
    if (layout.u.map == nullptr) {
      throw std::bad_alloc();
    }
    for (int i = 0; i < num_channels; ++i) {
      layout.u.map[i].id = static_cast<AVChannel>(in.number<std::int32_t>());
    }
  } else {
    layout.u.mask = mask;
  }
  if (num_channels > 0 && av_channel_layout_check(&layout) == 0) {
    ByteReader::refuse("a channel layout is not valid");
  }
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
    ByteReader::refuse("this FFmpeg does not know the codec '" + name + "'");
  }
  parameters.codec_id = descriptor->id;
  parameters.codec_type = type == MediaType::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
  const std::string format = in.text();
  parameters.format = type == MediaType::kAudio ? static_cast<int>(av_get_sample_fmt(format.c_str()))
                                                : static_cast<int>(av_get_pix_fmt(format.c_str()));
  visit_numbers(parameters, [&](auto& value) {
    using Number = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_enum_v<Number>) {
      value = static_cast<Number>(in.number<std::underlying_type_t<Number>>());
    } else {
      value = in.number<Number>();
    }
  });
  read_layout(in, parameters.ch_layout);
  if (const Bytes extradata = in.block(); !extradata.empty()) {
    if (extradata.size() > INT_MAX - kPadding) {
      ByteReader::refuse("a codec's data is too large");
    }
    parameters.extradata = static_cast<std::uint8_t*>(av_mallocz(extradata.size() + kPadding));
    if (parameters.extradata == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(extradata.begin(), extradata.end(), parameters.extradata);
    parameters.extradata_size = static_cast<int>(extradata.size());
  }
  for (std::size_t left = in.size(); left > 0; --left) {
    const auto kind = static_cast<AVPacketSideDataType>(in.number<std::int32_t>());
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
    ByteReader::refuse("the size of a packet is negative");
  }
  for (std::size_t left = in.size(); left > 0; --left) {
    const auto type = static_cast<AVPacketSideDataType>(in.number<std::int32_t>());
    const Bytes data = in.block();
    std::uint8_t* copy = av_packet_new_side_data(packet.get(), type, data.size());
    if (copy == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(data.begin(), data.end(), copy);
  }
  return packet;
}

void write_description(ByteWriter& out, const Packets& packets) {
  out.number(static_cast<std::uint8_t>(packets.type));
  out.text(packets.source);
  out.number(static_cast<std::int32_t>(packets.stream_index));
  write_rational(out, packets.time_base);
  out.number(static_cast<std::int32_t>(packets.num_errors));
  out.number(static_cast<std::uint8_t>(packets.window.has_value()));
  if (packets.window) {
    out.number(packets.window->start);
    out.number(packets.window->end);
  }
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
  ByteReader in(description);
  Packets packets;
  const auto type = in.number<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(MediaType::kImage)) {
    ByteReader::refuse("they are of an unknown kind of media");
  }
  packets.type = static_cast<MediaType>(type);
  packets.source = in.text();
  packets.stream_index = in.number<std::int32_t>();
  packets.time_base = read_rational(in);
  if (packets.time_base.num < 0 || packets.time_base.den <= 0) {
    ByteReader::refuse("the time base is not valid");
  }
  packets.num_errors = in.number<std::int32_t>();
  if (in.number<std::uint8_t>() != 0) {
    const auto start = in.number<double>();
    packets.window = TimeWindow{start, in.number<double>()};
  }
  if (in.number<std::uint8_t>() != 0) {
    packets.codec = read_codec(in, packets.type);
  }
  const std::size_t count = in.size();
  packets.packets.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    packets.packets.push_back(read_packet(in, packets.stream_index));
  }
  if (in.num_left() != 0) {
    ByteReader::refuse("there is more data than they take");
  }
  return packets;
}

void release_owner(void* owner, std::uint8_t*) { delete static_cast<std::shared_ptr<const void>*>(owner); }

// Makes the packet's data what is there, shared and never written to.
void attach(AVPacket& packet, Bytes data, const std::shared_ptr<const void>& owner) {
  auto share = std::make_unique<std::shared_ptr<const void>>(owner);
  packet.data = const_cast<std::uint8_t*>(data.data());
  packet.buf = av_buffer_create(packet.data, data.size(), release_owner, share.get(), AV_BUFFER_FLAG_READONLY);
  if (packet.buf == nullptr) {
    throw std::bad_alloc();
  }
  static_cast<void>(share.release());
}

}  // namespace

std::size_t serialized_size(const Packets& packets) {
  ByteWriter counter(nullptr);
  write_description(counter, packets);
  std::size_t size = kHeaderBytes + counter.size();
  for (const auto& packet : packets.packets) {
    size += static_cast<std::size_t>(packet->size) + kPadding;
  }
  return size;
}

void serialize(const Packets& packets, std::uint8_t* out) {
  ByteWriter description(out + kHeaderBytes);
  write_description(description, packets);
  ByteWriter header(out);
  header.bytes(kMagic);
  header.number(static_cast<std::uint64_t>(description.size()));
  header.number(hash({out + kHeaderBytes, description.size()}));
  ByteWriter payload(out + kHeaderBytes + description.size());
  for (const auto& packet : packets.packets) {
    payload.bytes({packet->data, static_cast<std::size_t>(packet->size)});
    payload.zeros(kPadding);
  }
}

Packets deserialize(Bytes data, const std::shared_ptr<const void>& owner) {
  ByteReader in(data);
  const Bytes magic = data.first(std::min(data.size(), kMagic.size()));
  if (!std::equal(magic.begin(), magic.end(), kMagic.begin(), kMagic.end())) {
    ByteReader::refuse("they do not begin as packets do");
  }
  in.bytes(kMagic.size());
  const auto description_size = in.number<std::uint64_t>();
  const auto expected = in.number<std::uint64_t>();
  if (description_size > in.num_left()) {
    ByteReader::refuse("the data ends early");
  }
  const Bytes description = in.bytes(static_cast<std::size_t>(description_size));
  if (hash(description) != expected) {
    ByteReader::refuse("the data is damaged");
  }
  Packets packets = read_description(description);
  for (auto& packet : packets.packets) {
    const Bytes payload = in.bytes(static_cast<std::size_t>(packet->size) + kPadding);
    const Bytes padding = payload.last(kPadding);
    if (std::any_of(padding.begin(), padding.end(), [](std::uint8_t byte) { return byte != 0; })) {
      ByteReader::refuse("the data is damaged");
    }
    attach(*packet, payload, owner);
  }
  if (in.num_left() != 0) {
    ByteReader::refuse("there is more data than they take");
  }
  return packets;
}

}  // namespace spdl
