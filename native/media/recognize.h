// What the first bytes of a source tell for sure.
//
// libav asks each of its more than 300 formats; that takes 0.2 ms, as long as reading the packets of a small file. And
// it looks for other codecs in the samples of every WAV file, in ever larger pieces, which takes 10 ms.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstdint>
#include <optional>
#include <span>

namespace spdl {

// How much of the start is worth having.
inline constexpr std::size_t kStartBytes = 16384;

// The format of data that starts so, where that is beyond doubt. Null: libav has to look closer.
const AVInputFormat* recognize(std::span<const std::uint8_t> start);

// Whether it is a playlist of HLS. From FFmpeg 7.1 on, libav takes it for one only if a name or a server says so.
bool is_hls_playlist(std::span<const std::uint8_t> start) noexcept;

// Whether a WAV file that starts so may hold DTS or AC-3 in what it calls samples.
bool may_hide_a_codec(std::span<const std::uint8_t> start) noexcept;

// How many bytes there are in all, as AVI, Matroska and WebM say at their start; none where they do not.
std::optional<std::uint64_t> declared_size(std::span<const std::uint8_t> start) noexcept;

// Whether a WAV file that starts so was written by somebody who could not go back to say how long it is.
bool is_endless_wav(std::span<const std::uint8_t> start) noexcept;

// Writes what the header of a FLAC file says into the parameters of its stream, as far as libav has not. FFmpeg 5.1
// parses the first frames for the number of channels, which takes as long as decoding a quarter of a second.
void complete_flac(AVFormatContext& context) noexcept;

// Whether the header told what is needed to take packets out, so that libav needs not decode some of them to find out.
// What it did not tell (pixel and sample formats, sizes of pictures), `measure` finds where someone asks.
bool is_header_enough(const AVFormatContext& context) noexcept;

// Whether this is one picture, all of the data being its packet.
bool is_whole_picture(const AVFormatContext& context) noexcept;

}  // namespace spdl
