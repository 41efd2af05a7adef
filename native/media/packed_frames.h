// Splits packets of MPEG-4 Part 2 that hold two pictures.
//
// AVI has no presentation times. So that pictures come out at the times of packets even so, encoders such as DivX and Xvid
// put a picture decoded ahead and the B-picture shown before it into one packet, and an empty picture (vop_coded = 0) where
// the first of the two is shown ("packed bitstream"). Without it, as here, each packet holds one picture, in decoding order;
// the times of packets are still those of the pictures in display order.
//
// One thread per object.

#pragma once

#include <utility>
#include <vector>

#include "av/owners.h"

namespace spdl {

class PackedFrames {
 public:
  // Whether the encoder has written into the stream's header that it packs pictures.
  static bool are_in(const AVCodecParameters& parameters) noexcept;

  // The packets to decode instead of this one: one or two.
  std::vector<av::PacketPtr> split(av::PacketPtr packet);
  // The picture that is left after the last packet; null if there is none.
  av::PacketPtr finish() noexcept { return std::move(waiting_); }

 private:
  av::PacketPtr waiting_;  // a picture that came with the one before it
};

}  // namespace spdl
