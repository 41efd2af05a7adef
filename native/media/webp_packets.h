// Packets of an animated WebP file: one for each frame, a chunk named ANMF with its name and size.
//
// FFmpeg 5.1 knows animations neither in its demuxer nor in its decoder; see webp_animation.h. One thread per object.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstdint>
#include <optional>
#include <span>

#include "image/webp.h"

namespace spdl {

class WebpPackets {
 public:
  // None for anything but an animation. `start`: the first bytes.
  static std::optional<WebpPackets> find(std::span<const std::uint8_t> start) noexcept;

  // Sets what the header says.
  void complete(AVFormatContext& context) const noexcept;
  // As av_read_frame does. The source stands where the last call left it, or at the start.
  int read(AVIOContext& io, AVPacket& packet);
  // The size of the file that it states, if the data ended before; none if it has not.
  std::optional<std::uint64_t> missing_end() const noexcept { return is_cut_ ? std::optional(size_) : std::nullopt; }

 private:
  WebpPackets(const WebpAnimationHeader& header, std::uint64_t size) : header_(header), size_(size) {}

  WebpAnimationHeader header_;
  std::uint64_t size_;  // of the file, as it states
  std::int64_t time_ = 0;
  std::optional<WebpAnimationFrame> before_;  // without its picture
  bool before_is_key_ = false;
  bool is_cut_ = false;
};

}  // namespace spdl
