#include "media/entry_point.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace spdl {
namespace {

// The first byte of a NAL unit. H.264: types 1 to 5 hold slices, 5 those of an instantaneous refresh (ITU-T H.264, table 7-1).
// HEVC: 0 to 31 do, 16 to 23 those of pictures at which decoding may begin (ITU-T H.265, table 7-1).
EntryKind slice_of(AVCodecID codec, std::uint8_t header) noexcept {
  if (codec == AV_CODEC_ID_HEVC) {
    const int type = header >> 1 & 0x3f;
    return type >= 32 ? EntryKind::kNone : type >= 16 && type <= 23 ? EntryKind::kEntry : EntryKind::kOther;
  }
  constexpr int kIdr = 5;
  const int type = header & 0x1f;
  return type < 1 || type > kIdr ? EntryKind::kNone : type == kIdr ? EntryKind::kEntry : EntryKind::kOther;
}

// Units behind start codes 00 00 01 (annex B).
EntryKind first_slice_by_start_codes(AVCodecID codec, Bytes data) noexcept {
  for (std::size_t i = 0; i + 3 < data.size(); ++i) {
    if (data[i] == 0 && data[i + 1] == 0 && data[i + 2] == 1) {
      if (const EntryKind slice = slice_of(codec, data[i + 3]); slice != EntryKind::kNone) {
        return slice;
      }
      i += 3;
    }
  }
  return EntryKind::kNone;
}

// Units behind their lengths (ISO/IEC 14496-15, 5.3.4).
EntryKind first_slice_by_lengths(AVCodecID codec, Bytes data, std::size_t length_size) noexcept {
  while (data.size() > length_size) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_size; ++i) {
      length = length << 8 | data[i];
    }
    data = data.subspan(length_size);
    if (const EntryKind slice = slice_of(codec, data[0]); slice != EntryKind::kNone) {
      return slice;
    }
    if (length > data.size()) {
      break;
    }
    data = data.subspan(length);
  }
  return EntryKind::kNone;
}

// The size of the lengths before units; 0 where there are start codes (ISO/IEC 14496-15, 5.3.3.1 and 8.3.3.1).
std::size_t length_size_of(AVCodecID codec, Bytes extradata) noexcept {
  const std::size_t at = codec == AV_CODEC_ID_HEVC ? 21 : 4;
  return extradata.size() > at && extradata[0] == 1 ? std::size_t{1} + (extradata[at] & 3) : 0;
}

}  // namespace

EntryKind entry_kind(const AVPacket& packet, AVCodecID codec, Bytes extradata) noexcept {
  if (packet.size <= 0) {
    return EntryKind::kNone;
  }
  const Bytes data(packet.data, static_cast<std::size_t>(packet.size));
  const std::size_t length_size = length_size_of(codec, extradata);
  return length_size > 0 ? first_slice_by_lengths(codec, data, length_size) : first_slice_by_start_codes(codec, data);
}

bool is_clean_entry(const AVPacket& packet, const AVCodecParameters& parameters) noexcept {
  const AVCodecID codec = parameters.codec_id;
  return (codec != AV_CODEC_ID_H264 && codec != AV_CODEC_ID_HEVC) || packet.size <= 0 ||
         entry_kind(packet, codec, {parameters.extradata, static_cast<std::size_t>(parameters.extradata_size)}) ==
             EntryKind::kEntry;
}

}  // namespace spdl
