// Decides for MPEG transport streams whose counters jump (ISO/IEC 13818-1, 2.4.3.3) whether data is lost or two streams
// were joined.
//
// Concatenated segments play everywhere, but each counts from 0. libav marks the last packet before such a joint as
// damaged, as it does when data is missing.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstddef>
#include <span>

namespace spdl {

bool is_transport_stream(const AVFormatContext& context) noexcept;

// `packets`: of one stream, in order; libav has marked the first one as damaged and means that one or the next. Returns
// whether nothing is missing: the packets are whole, and where the counter jumps, time continues or restarts, with a
// key frame. Reads the container there and returns to its position; false if it cannot.
bool is_joint(AVFormatContext& context, std::span<const AVPacket* const> packets) noexcept;

// How many packets `is_joint` needs.
inline constexpr std::size_t kAroundJoint = 3;

}  // namespace spdl
