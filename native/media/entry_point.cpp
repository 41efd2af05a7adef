#include "media/entry_point.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Types of NAL units: 1 to 5 hold slices, 5 those of an instantaneous refresh (ITU-T H.264, table 7-1).
constexpr int kIdr = 5;
constexpr int kNoSlice = 0;

// The type of the first slice of a unit list, or kNoSlice.
int slice_type(std::uint8_t header) noexcept {
  const int type = header & 0x1f;
  return type >= 1 && type <= kIdr ? type : kNoSlice;
}

// Units behind start codes 00 00 01 (annex B).
int first_slice_by_start_codes(Bytes data) noexcept {
  for (std::size_t i = 0; i + 3 < data.size(); ++i) {
    if (data[i] == 0 && data[i + 1] == 0 && data[i + 2] == 1) {
      if (const int type = slice_type(data[i + 3]); type != kNoSlice) {
        return type;
      }
      i += 3;
    }
  }
  return kNoSlice;
}

// Units behind their lengths (ISO/IEC 14496-15, 5.3.4).
int first_slice_by_lengths(Bytes data, std::size_t length_size) noexcept {
  while (data.size() > length_size) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_size; ++i) {
      length = length << 8 | data[i];
    }
    data = data.subspan(length_size);
    if (const int type = slice_type(data[0]); type != kNoSlice) {
      return type;
    }
    if (length > data.size()) {
      break;
    }
    data = data.subspan(length);
  }
  return kNoSlice;
}

}  // namespace

bool is_clean_entry(const AVPacket& key_frame, const AVCodecParameters& parameters) noexcept {
  if (parameters.codec_id != AV_CODEC_ID_H264 || key_frame.size <= 0) {
    return true;
  }
  const Bytes data(key_frame.data, static_cast<std::size_t>(key_frame.size));
  const bool has_lengths = parameters.extradata_size > 4 && parameters.extradata[0] == 1;
  const int type = has_lengths ? first_slice_by_lengths(data, std::size_t{1} + (parameters.extradata[4] & 3))
                               : first_slice_by_start_codes(data);
  return type == kIdr;
}

}  // namespace spdl
