// Composes the pictures of an animated WebP from packets that hold one frame each (webp_packets.h).
//
// The same pixels as libwebp's own WebPAnimDecoder gives, which reads whole files only: RGBA, or RGB24 where the file
// says that it has no alpha. The colour of the background is not used. One thread per object.

#pragma once

#include <optional>

#include "av/owners.h"
#include "base/buffer.h"
#include "image/webp.h"

namespace spdl {

class WebpAnimation {
 public:
  // Whether a packet holds a frame of an animation, which no decoder of libav takes.
  static bool is_frame(const AVPacket& packet) noexcept;

  // For the size and format of the context, which must outlive the object.
  explicit WebpAnimation(const AVCodecContext& context) : context_(&context) {}

  // Whether frames can be composed: not before the first key frame.
  bool can_compose(const AVPacket& packet) const noexcept;
  // Null if it is damaged; the canvas is then as before. Throws Error(kDecode): a build without libwebp.
  av::FramePtr decode(const AVPacket& packet);
  // Forgets the canvas.
  void restart() noexcept { before_.reset(); }

 private:
  const AVCodecContext* context_;
  Buffer picture_;                            // RGBA without padding
  Buffer canvas_;                             // the same, with the last frame disposed of
  std::optional<WebpAnimationFrame> before_;  // the last frame, without its picture
};

}  // namespace spdl
