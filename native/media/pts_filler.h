// Presentation times that a container leaves out.
//
// Program streams of MPEG-1 and MPEG-2 leave some out: of pictures that are decoded ahead of others. There, one such picture
// waits at a time: it is displayed when the next of its kind is decoded (ISO/IEC 13818-1, 2.7.5).
//
// AVI, ASF and raw streams know none: the times of their packets are at best those of decoding. There the pictures are
// displayed at the same times, in display order, the first one at the first time. What libav puts in for some of them
// counts the decoder's delay in, and is dropped.
//
// One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "av/owners.h"
#include "media/codec.h"
#include "media/display_order.h"

namespace spdl {

class PtsFiller {
 public:
  struct Stream {
    bool knows_display = true;             // the container has room for presentation times
    bool from_start = true;                // packets come from the beginning
    std::optional<AVRational> frame_rate;  // what the user said, where the container has no times
  };

  // The parameters of the codec must outlive the filler.
  PtsFiller(const Codec& codec, const Stream& stream) noexcept;

  void push(av::PacketPtr packet);
  // No packet comes after those before.
  void finish();
  // The next packet, or null if it still waits for its time.
  av::PacketPtr pop();

 private:
  enum class Way {
    kNotChosen,  // before the first packet
    kNothing,    // packets just go through
    kAhead,      // fill in those of pictures that are decoded ahead
    kOrder,      // all times are of decoding
  };
  struct Waiting {
    av::PacketPtr packet;
    bool has_time = false;
  };

  Way way_for(const AVPacket& first) const noexcept;
  void take_time_of(const AVPacket& packet);
  void give_times();
  std::int64_t decoding_time(std::size_t number) const noexcept;

  const AVCodecParameters& parameters_;
  std::int64_t frame_ticks_;  // between pictures, by the frame rate
  Stream stream_;
  Way way_ = Way::kNotChosen;
  std::deque<Waiting> packets_;
  std::int64_t end_ = AV_NOPTS_VALUE;  // decoding time after the last packet

  // kOrder
  std::optional<DisplayOrder> order_;
  std::deque<std::int64_t> times_;  // of packets in decoding order; those not needed any more are gone
  std::size_t first_time_ = 0;      // number of the packet that times_ begins with
  std::size_t num_displayed_ = 0;
  std::size_t num_popped_ = 0;
  std::int64_t start_ = 0;
};

}  // namespace spdl
