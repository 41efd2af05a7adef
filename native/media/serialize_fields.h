// Fields that serialized packets and serialized frames both have.

#pragma once

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/rational.h>
}

#include "media/byte_stream.h"

namespace spdl {

void write_rational(ByteWriter& out, AVRational value) noexcept;
AVRational read_rational(ByteReader& in);

void write_layout(ByteWriter& out, const AVChannelLayout& layout) noexcept;
// `layout` is empty before, and valid afterwards or, without channels, empty. Throws Error(kMedia).
void read_layout(ByteReader& in, AVChannelLayout& layout);

}  // namespace spdl
