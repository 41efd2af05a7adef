// MPEG transport streams where their counters jump (ISO/IEC 13818-1, 2.4.3.3): is something lost, or do two streams meet?
//
// Segments that were put one behind the other play everywhere, but each counts from 0. libav marks the last packet before such
// a joint as damaged, as it does where something is missing.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstddef>
#include <span>

namespace spdl {

bool is_transport_stream(const AVFormatContext& context) noexcept;

// Packets of one stream, in their order, of which libav marks the first one as damaged: it means that one or the next. Whether
// nothing is missing: they are whole, and where the counter jumps, time goes on or starts anew, with a key frame. Reads the
// container there, and goes back to where it was; false where it cannot.
bool is_joint(AVFormatContext& context, std::span<const AVPacket* const> packets) noexcept;

// How many packets that takes.
inline constexpr std::size_t kAroundJoint = 3;

}  // namespace spdl
