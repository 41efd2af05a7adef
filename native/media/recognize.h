// What the first bytes of a source tell with certainty.
//
// libav probes each of its more than 300 formats; that takes 0.2 ms, as long as reading the packets of a small file. It
// also looks for other codecs in the samples of every WAV file, in ever larger pieces, which takes 10 ms.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstdint>
#include <span>

namespace spdl {

// How many bytes of the start these functions need at most.
inline constexpr std::size_t kStartBytes = 16384;

// The format of data with this start, if certain. Null: libav must probe it.
const AVInputFormat* recognize(std::span<const std::uint8_t> start);

// What the data of a sound is that libav takes for something else or for damaged, such as a little-endian AU file; null for others.
const char* unsupported_sound(std::span<const std::uint8_t> start) noexcept;

// Whether it is an HLS playlist. From FFmpeg 7.1 on, libav recognises one only by its name or by the server's content
// type.
bool is_hls_playlist(std::span<const std::uint8_t> start) noexcept;

// Whether a WAV file with this start may hold DTS or AC-3 in its samples.
bool may_hide_a_codec(std::span<const std::uint8_t> start) noexcept;

// Copies parameters from the header of a FLAC file to its stream that libav has left unset. FFmpeg 5.1 parses the first
// frames for the number of channels, which takes as long as decoding a quarter of a second.
void complete_flac(AVFormatContext& context) noexcept;

// Whether the header has all that is needed to read packets, so that libav need not decode some first. `measure` finds
// the rest (pixel and sample formats, sizes of pictures) when it is needed.
bool is_header_enough(const AVFormatContext& context) noexcept;

// Whether this is one picture, with all of the data in one packet.
bool is_whole_picture(const AVFormatContext& context) noexcept;

}  // namespace spdl
