#include "media/shown_frames.h"

#include <cstddef>
#include <cstdint>

namespace spdl {
namespace {

// RFC 6386, 9.1: bits 0 (no key frame), 1 to 3 (version), 4 (show_frame).
std::optional<int> num_shown_in_vp8(Bytes packet) noexcept {
  return packet.empty() ? std::nullopt : std::optional((packet[0] >> 4) & 1);
}

// VP9 Bitstream & Decoding Process Specification, 6.2 (uncompressed_header), from the first bit on.
std::optional<int> num_shown_in_vp9_frame(Bytes frame) noexcept {
  if (frame.empty() || frame[0] >> 6 != 2) {  // frame_marker
    return std::nullopt;
  }
  const int profile = ((frame[0] >> 5) & 1) | ((frame[0] >> 3) & 2);
  const int shift = profile == 3 ? 2 : 3;  // of show_existing_frame; profile 3 has a reserved bit before it
  const bool shows_existing = ((frame[0] >> shift) & 1) != 0;
  const bool is_shown = ((frame[0] >> (shift - 2)) & 1) != 0;  // frame_type is between the two
  return shows_existing || is_shown ? 1 : 0;
}

// Annex B (superframes): an index at the end has the sizes of all frames but for hidden bytes.
std::optional<int> num_shown_in_vp9(Bytes packet) noexcept {
  if (packet.empty()) {
    return std::nullopt;
  }
  const std::uint8_t marker = packet.back();
  const std::size_t num_frames = std::size_t{1} + (marker & 7);
  const std::size_t size_bytes = std::size_t{1} + ((marker >> 3) & 3);
  const std::size_t index_bytes = 2 + size_bytes * num_frames;
  if ((marker & 0xe0) != 0xc0 || packet.size() < index_bytes || packet[packet.size() - index_bytes] != marker) {
    return num_shown_in_vp9_frame(packet);
  }
  const Bytes index = packet.last(index_bytes).subspan(1);
  Bytes frames = packet.first(packet.size() - index_bytes);
  int num_shown = 0;
  for (std::size_t i = 0; i < num_frames; ++i) {
    std::size_t size = 0;
    for (std::size_t byte = size_bytes; byte-- > 0;) {
      size = size << 8 | index[i * size_bytes + byte];
    }
    if (size > frames.size()) {
      return std::nullopt;
    }
    const auto shown = size > 0 ? num_shown_in_vp9_frame(frames.first(size)) : std::optional(0);
    if (!shown) {
      return std::nullopt;
    }
    num_shown += *shown;
    frames = frames.subspan(size);
  }
  return num_shown;
}

// ISO/IEC 14496-2, 6.2.5: after the start code of a VOP come vop_coding_type (2 bits), modulo_time_base (1 bits up to a
// 0 bit), a marker, vop_time_increment, a marker, and vop_coded. Without the rest of a picture it fits into a few bytes.
std::optional<int> num_shown_in_mpeg4(Bytes packet) noexcept {
  constexpr std::size_t kSmallest = 8;
  return packet.size() < kSmallest ? 0 : 1;
}

}  // namespace

std::optional<int> num_shown_frames(AVCodecID codec, Bytes packet) noexcept {
  switch (codec) {
    case AV_CODEC_ID_VP8:
      return num_shown_in_vp8(packet);
    case AV_CODEC_ID_VP9:
      return num_shown_in_vp9(packet);
    case AV_CODEC_ID_MPEG4:
      return num_shown_in_mpeg4(packet);
    default:
      return std::nullopt;
  }
}

}  // namespace spdl
