#include "av/compat.h"

extern "C" {
#include <libavfilter/version.h>
#include <libavutil/channel_layout.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace spdl::av {
namespace {

#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
template <class T>
std::vector<T> query(const AVCodec& codec, AVCodecConfig what) {
  const void* values = nullptr;
  int count = 0;
  if (avcodec_get_supported_config(nullptr, &codec, what, 0, &values, &count) < 0 || values == nullptr) {
    return {};
  }
  const T* first = static_cast<const T*>(values);
  return {first, first + count};
}
#else
template <class T>
std::vector<T> until(const T* values, T end) {
  std::vector<T> found;
  for (; values != nullptr && *values != end; ++values) {
    found.push_back(*values);
  }
  return found;
}
#endif

}  // namespace

std::int64_t frame_duration(const AVFrame& frame) noexcept {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
  return frame.duration;
#else
  return frame.pkt_duration;
#endif
}

void set_frame_duration(AVFrame& frame, std::int64_t ticks) noexcept {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
  frame.duration = ticks;
#else
  frame.pkt_duration = ticks;
#endif
}

#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
int frame_flags(const AVFrame& frame) noexcept { return frame.flags; }
void set_frame_flags(AVFrame& frame, int flags) noexcept { frame.flags = flags; }
#else
namespace {

// As later versions number them; earlier ones use none of these bits.
constexpr int kKey = 1 << 1;
constexpr int kInterlaced = 1 << 3;
constexpr int kTopFieldFirst = 1 << 4;

}  // namespace

int frame_flags(const AVFrame& frame) noexcept {
  return frame.flags | (frame.key_frame != 0 ? kKey : 0) | (frame.interlaced_frame != 0 ? kInterlaced : 0) |
         (frame.top_field_first != 0 ? kTopFieldFirst : 0);
}

void set_frame_flags(AVFrame& frame, int flags) noexcept {
  frame.flags = flags & ~(kKey | kInterlaced | kTopFieldFirst);
  frame.key_frame = (flags & kKey) != 0 ? 1 : 0;
  frame.interlaced_frame = (flags & kInterlaced) != 0 ? 1 : 0;
  frame.top_field_first = (flags & kTopFieldFirst) != 0 ? 1 : 0;
}
#endif

#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
std::vector<AVPixelFormat> supported_pixel_formats(const AVCodec& codec) {
  return query<AVPixelFormat>(codec, AV_CODEC_CONFIG_PIX_FORMAT);
}
std::vector<AVSampleFormat> supported_sample_formats(const AVCodec& codec) {
  return query<AVSampleFormat>(codec, AV_CODEC_CONFIG_SAMPLE_FORMAT);
}
std::vector<int> supported_sample_rates(const AVCodec& codec) {
  return query<int>(codec, AV_CODEC_CONFIG_SAMPLE_RATE);
}
std::vector<AVRational> supported_frame_rates(const AVCodec& codec) {
  return query<AVRational>(codec, AV_CODEC_CONFIG_FRAME_RATE);
}
std::vector<AVChannelLayout> supported_channel_layouts(const AVCodec& codec) {
  return query<AVChannelLayout>(codec, AV_CODEC_CONFIG_CHANNEL_LAYOUT);
}
#else
std::vector<AVPixelFormat> supported_pixel_formats(const AVCodec& codec) {
  return until(codec.pix_fmts, AV_PIX_FMT_NONE);
}
std::vector<AVSampleFormat> supported_sample_formats(const AVCodec& codec) {
  return until(codec.sample_fmts, AV_SAMPLE_FMT_NONE);
}
std::vector<int> supported_sample_rates(const AVCodec& codec) { return until(codec.supported_samplerates, 0); }
std::vector<AVRational> supported_frame_rates(const AVCodec& codec) {
  std::vector<AVRational> found;
  for (const AVRational* rate = codec.supported_framerates; rate != nullptr && rate->num != 0; ++rate) {
    found.push_back(*rate);
  }
  return found;
}
std::vector<AVChannelLayout> supported_channel_layouts(const AVCodec& codec) {
  std::vector<AVChannelLayout> found;
  for (const AVChannelLayout* layout = codec.ch_layouts; layout != nullptr && layout->nb_channels != 0; ++layout) {
    found.push_back(*layout);
  }
  return found;
}
#endif

#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(9, 16, 100)
bool buffer_takes_colors() noexcept { return true; }
void set_colors(AVBufferSrcParameters& parameters, AVColorSpace matrix, AVColorRange range) noexcept {
  parameters.color_space = matrix;
  parameters.color_range = range;
}
#else
bool buffer_takes_colors() noexcept { return false; }
void set_colors(AVBufferSrcParameters&, AVColorSpace, AVColorRange) noexcept {}
#endif

#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
void carry_side_data(const AVStream&, AVPacket&) {}
std::vector<SideData> side_data_of(const AVStream&) { return {}; }
void add_side_data(AVStream&, const std::vector<SideData>&) {}

std::vector<std::pair<AVPacketSideDataType, std::span<const std::uint8_t>>> coded_side_data(
    const AVCodecParameters& parameters) {
  std::vector<std::pair<AVPacketSideDataType, std::span<const std::uint8_t>>> found;
  for (int i = 0; i < parameters.nb_coded_side_data; ++i) {
    const AVPacketSideData& each = parameters.coded_side_data[i];
    found.emplace_back(each.type, std::span<const std::uint8_t>(each.data, each.size));
  }
  return found;
}

void add_coded_side_data(AVCodecParameters& parameters, AVPacketSideDataType type, std::span<const std::uint8_t> data) {
  AVPacketSideData* added =
      av_packet_side_data_new(&parameters.coded_side_data, &parameters.nb_coded_side_data, type, data.size(), 0);
  if (added == nullptr) {
    throw std::bad_alloc();
  }
  if (!data.empty()) {
    std::memcpy(added->data, data.data(), data.size());
  }
}
#else
void carry_side_data(const AVStream& stream, AVPacket& first) {
  for (int i = 0; i < stream.nb_side_data; ++i) {
    const AVPacketSideData& from = stream.side_data[i];
    if (from.size == 0 || av_packet_get_side_data(&first, from.type, nullptr) != nullptr) {
      continue;
    }
    std::uint8_t* to = av_packet_new_side_data(&first, from.type, from.size);
    if (to == nullptr) {
      throw std::bad_alloc();
    }
    std::memcpy(to, from.data, from.size);
  }
}

std::vector<SideData> side_data_of(const AVStream& stream) {
  std::vector<SideData> found;
  for (int i = 0; i < stream.nb_side_data; ++i) {
    const AVPacketSideData& from = stream.side_data[i];
    found.push_back({from.type, {from.data, from.data + from.size}});
  }
  return found;
}

void add_side_data(AVStream& stream, const std::vector<SideData>& side_data) {
  for (const SideData& from : side_data) {
    std::uint8_t* to = av_stream_new_side_data(&stream, from.type, from.bytes.size());
    if (to == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(from.bytes.begin(), from.bytes.end(), to);
  }
}
std::vector<std::pair<AVPacketSideDataType, std::span<const std::uint8_t>>> coded_side_data(const AVCodecParameters&) {
  return {};
}

void add_coded_side_data(AVCodecParameters&, AVPacketSideDataType, std::span<const std::uint8_t>) {}
#endif

std::string channel_layout_name(const AVChannelLayout& layout) {
  std::array<char, 128> text{};
  if (av_channel_layout_describe(&layout, text.data(), text.size()) < 0) {
    return {};
  }
  return text.data();
}

// AVStreamGroup came with 60.19, and AVStreamGroupTileGrid with 60.21.
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(61, 0, 100)
std::optional<TileGrid> tile_grid_of(const AVFormatContext& context, int stream) {
  for (unsigned i = 0; i < context.nb_stream_groups; ++i) {
    const AVStreamGroup& group = *context.stream_groups[i];
    if (group.type != AV_STREAM_GROUP_PARAMS_TILE_GRID || group.params.tile_grid == nullptr) {
      continue;
    }
    const AVStreamGroupTileGrid& from = *group.params.tile_grid;
    TileGrid grid{from.coded_width, from.coded_height, from.horizontal_offset, from.vertical_offset,
                  from.width,       from.height,       {}};
    bool is_among_them = false;
    for (unsigned tile = 0; tile < from.nb_tiles; ++tile) {
      if (from.offsets[tile].idx >= group.nb_streams) {
        continue;
      }
      const int index = group.streams[from.offsets[tile].idx]->index;
      grid.tiles.push_back({index, from.offsets[tile].horizontal, from.offsets[tile].vertical});
      is_among_them = is_among_them || index == stream;
    }
    if (is_among_them) {
      return grid;
    }
  }
  return std::nullopt;
}
#else
std::optional<TileGrid> tile_grid_of(const AVFormatContext&, int) { return std::nullopt; }
#endif

}  // namespace spdl::av
