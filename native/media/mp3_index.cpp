#include "media/mp3_index.h"

#include <algorithm>

namespace spdl {
namespace {

// Sync word, version and layer; sample rate. The others (bit rate, padding, channel mode …) may differ from frame to frame.
constexpr std::array<std::uint8_t, 3> kCommonBits = {0xff, 0xfe, 0x0c};

}  // namespace

Mp3Index::Mp3Index(std::int64_t first, std::span<const std::uint8_t, kMpegAudioHeader> header) noexcept : end_(first) {
  for (std::size_t i = 0; i < common_.size(); ++i) {
    common_[i] = header[i] & kCommonBits[i];
  }
}

std::optional<std::size_t> Mp3Index::length_at(std::int64_t position, const BytesAt& bytes_at) const {
  const auto bytes = bytes_at(position, kMpegAudioHeader);
  if (bytes.size() < kMpegAudioHeader) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < common_.size(); ++i) {
    if ((bytes[i] & kCommonBits[i]) != common_[i]) {
      return std::nullopt;
    }
  }
  const auto header = parse_mpeg_audio(bytes.first<kMpegAudioHeader>());
  return header ? std::optional(header->num_bytes) : std::nullopt;
}

std::optional<std::int64_t> Mp3Index::find(std::int64_t number, const BytesAt& bytes_at) {
  while (number >= num_found_ && !is_complete_) {
    const auto length = length_at(end_, bytes_at);
    if (!length) {
      is_complete_ = true;
      break;
    }
    if (num_found_ % kStride == 0) {
      positions_.push_back(end_);
    }
    last_ = {num_found_, end_};
    ++num_found_;
    end_ += static_cast<std::int64_t>(*length);
  }
  if (number < 0 || number >= num_found_) {
    return std::nullopt;
  }
  const Frame stored{number / kStride * kStride, positions_[static_cast<std::size_t>(number / kStride)]};
  Frame frame = last_.number <= number && last_.number > stored.number ? last_ : stored;
  while (frame.number < number) {
    const auto length = length_at(frame.position, bytes_at);
    if (!length) {
      return std::nullopt;  // the file has changed
    }
    frame = {frame.number + 1, frame.position + static_cast<std::int64_t>(*length)};
  }
  last_ = frame;
  return frame.position;
}

}  // namespace spdl
