// Fills in presentation times that a container leaves out.
//
// Program streams of MPEG-1 and MPEG-2 leave out some times of reference pictures, which are decoded before the pictures that
// refer to them. Such a picture is displayed when the next reference picture is decoded, and only one of them waits at a time
// (ISO/IEC 13818-1, 2.7.5).
//
// AVI, ASF and raw streams have no presentation times: the times of their packets are decoding times at best. The pictures are
// then displayed at the same times, but in display order, starting at the first time. Presentation times that libav makes up for
// some of them include the decoder's delay, and are replaced.
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
#include "media/packed_frames.h"

namespace spdl {

class PtsFiller {
 public:
  struct Stream {
    bool knows_display = true;             // the container has room for presentation times
    bool from_start = true;                // packets start at the beginning of the stream
    std::optional<AVRational> frame_rate;  // given by the user for containers without times
  };

  // The parameters of the codec must outlive the filler.
  PtsFiller(const Codec& codec, const Stream& stream) noexcept;

  void push(av::PacketPtr packet);
  // Signals that there are no more packets.
  void finish();
  // The next packet, or null if its time is not known yet.
  av::PacketPtr pop();

 private:
  enum class Mode {
    kUndecided,       // before the first packet
    kPassThrough,     // leave packets as they are
    kReferencesOnly,  // fill in the times of reference pictures
    kDisplayOrder,    // assign all times, in display order
  };
  struct Waiting {
    av::PacketPtr packet;
    bool has_time = false;
  };

  void push_one(av::PacketPtr packet);
  Mode mode_for(const AVPacket& first) const noexcept;
  void add_decoding_time(const AVPacket& packet);
  void assign_times();
  std::int64_t decoding_time(std::size_t number) const noexcept;

  const AVCodecParameters& parameters_;
  std::int64_t frame_ticks_;  // between pictures, by the frame rate
  Stream stream_;
  std::optional<PackedFrames> packed_;
  Mode mode_ = Mode::kUndecided;
  std::deque<Waiting> packets_;
  std::int64_t end_ = AV_NOPTS_VALUE;  // decoding time after the last packet

  // kDisplayOrder
  std::optional<DisplayOrder> order_;
  std::deque<std::int64_t> times_;  // of packets in decoding order; times no longer needed are removed
  std::size_t first_time_ = 0;      // number of the packet that times_ begins with
  std::size_t num_displayed_ = 0;
  std::size_t num_popped_ = 0;
  std::int64_t start_ = 0;
};

}  // namespace spdl
