// Every difference between the versions of FFmpeg that we build with (5.1, 6, 7 and later), each hidden by a function.
// No other file checks the version.

#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavfilter/buffersrc.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
}

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spdl::av {

// Duration of a frame in its time base; 0 if unknown. (AVFrame::pkt_duration before FFmpeg 6.)
std::int64_t frame_duration(const AVFrame& frame) noexcept;
void set_frame_duration(AVFrame& frame, std::int64_t ticks) noexcept;

// AVFrame::flags, including those for key frames and fields. (Those were separate members before FFmpeg 6.1.)
int frame_flags(const AVFrame& frame) noexcept;
void set_frame_flags(AVFrame& frame, int flags) noexcept;

// What an encoder accepts; empty: anything. (Arrays of AVCodec before FFmpeg 7.1, then a query.)
std::vector<AVPixelFormat> supported_pixel_formats(const AVCodec& codec);
std::vector<AVSampleFormat> supported_sample_formats(const AVCodec& codec);
std::vector<int> supported_sample_rates(const AVCodec& codec);
std::vector<AVRational> supported_frame_rates(const AVCodec& codec);
// The layouts belong to the codec: do not uninitialise them.
std::vector<AVChannelLayout> supported_channel_layouts(const AVCodec& codec);

// Whether a graph's input takes the colour space and range of its frames (since FFmpeg 7); and setting them.
bool buffer_takes_colors() noexcept;
void set_colors(AVBufferSrcParameters& parameters, AVColorSpace matrix, AVColorRange range) noexcept;

// Puts what a container says of a stream beside its codec parameters (display matrix, replay gain, ...) on its first
// packet, where the decoder reads it. (Since FFmpeg 6.1 it is part of the codec parameters, and this does nothing.)
void carry_side_data(const AVStream& stream, AVPacket& first);

// A HEIF picture made of tiles, each its own stream (since FFmpeg 7; earlier versions refuse such files).
struct TileGrid {
  struct Tile {
    int stream;
    int left, top;  // on the canvas
  };
  int canvas_width, canvas_height;
  int left, top, width, height;  // the visible part of the canvas
  std::vector<Tile> tiles;
};
// The grid that the stream is a tile of; none if it is not a tile.
std::optional<TileGrid> tile_grid_of(const AVFormatContext& context, int stream);

// The same data for muxers, which need it before the first packet. (None since FFmpeg 6.1.)
struct SideData {
  AVPacketSideDataType type;
  std::vector<std::uint8_t> bytes;
};
std::vector<SideData> side_data_of(const AVStream& stream);
void add_side_data(AVStream& stream, const std::vector<SideData>& side_data);
// The same data as part of the codec parameters: none before FFmpeg 6.1.
std::vector<std::pair<AVPacketSideDataType, std::span<const std::uint8_t>>> coded_side_data(
    const AVCodecParameters& parameters);
void add_coded_side_data(AVCodecParameters& parameters, AVPacketSideDataType type, std::span<const std::uint8_t> data);

// "stereo", "5.1(side)"; for layouts without a name, "3 channels".
std::string channel_layout_name(const AVChannelLayout& layout);

}  // namespace spdl::av
