// What lies behind the last frame of a raw stream of sound: tags and padding, which are no damage.
//
// FFmpeg's parsers give them as packets, or as the end of the last packet, since most of these formats do not say where they
// end.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstddef>

namespace spdl {

// Whether the demuxer gives whatever the file holds to a parser: FLAC, MP3, AAC, AC-3 and such.
bool is_raw_sound(const AVFormatContext& context) noexcept;

// Of a packet among the last ones of such a stream: the number of bytes before tags (ID3v1, ID3v2, APEv2, Lyrics3) or zeros
// that go on to the end of the packet; 0 if it has nothing else.
std::size_t size_without_trailer(AVCodecID codec, const AVPacket& packet) noexcept;

}  // namespace spdl
