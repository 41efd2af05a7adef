// Presentation times that a container leaves out.
//
// Program streams of MPEG-1 and MPEG-2, and AVI, do not say when a picture is displayed that is decoded ahead of others.
// There, one such picture waits at a time: it is displayed when the next of its kind is decoded (ISO/IEC 13818-1, 2.7.5).
// One thread per object.

#pragma once

#include <deque>

#include "av/owners.h"

namespace spdl {

class PtsFiller {
 public:
  // Whether it knows what to do with this stream; if not, packets just go through.
  explicit PtsFiller(const AVCodecParameters& parameters) noexcept;

  void push(av::PacketPtr packet);
  // No packet comes after those before; what is left has the time after the last one.
  void finish();
  // The next packet, or null if it still waits for its time.
  av::PacketPtr pop();

 private:
  bool fills_;
  std::deque<av::PacketPtr> packets_;
  std::int64_t end_ = AV_NOPTS_VALUE;  // decoding time after the last packet
};

}  // namespace spdl
