// Positions of the frames of an MPEG audio file, found by walking from header to header.
//
// Frames of one file have one duration, so the number of a frame tells its time. Where the bit rate varies, nothing tells which
// number the frame at a given place has: the table of contents of a "Xing" or "VBRI" frame is rounded. So the headers are read
// up to the wanted frame, once.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "media/block_reader.h"
#include "media/mpeg_audio.h"

namespace spdl {

// One thread per object.
class Mp3Index {
 public:
  // `first`: where the first frame begins, and its header.
  Mp3Index(std::int64_t first, std::span<const std::uint8_t, kMpegAudioHeader> header) noexcept;

  // Where that frame begins, counted from 0. None if the chain of frames ends before it: at the end of the file, or at anything
  // that is not a frame of the same kind.
  std::optional<std::int64_t> find(std::int64_t number, const BytesAt& bytes_at);
  // How many frames are known.
  std::int64_t num_found() const noexcept { return num_found_; }

 private:
  struct Frame {
    std::int64_t number = 0;
    std::int64_t position = 0;
  };

  // The length of the frame at that position.
  std::optional<std::size_t> length_at(std::int64_t position, const BytesAt& bytes_at) const;

  // One in this many positions is stored. The others are found by walking on from there.
  static constexpr std::int64_t kStride = 64;

  std::array<std::uint8_t, 3> common_;  // bits that the headers of all frames share
  std::vector<std::int64_t> positions_;
  Frame last_;  // found last; the next search is mostly for the one after it
  std::int64_t num_found_ = 0;
  std::int64_t end_;          // of the last known frame
  bool is_complete_ = false;  // no frame follows
};

}  // namespace spdl
