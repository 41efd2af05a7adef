// Chooses the packets that are needed to decode a window of time. Looks at packets only, and reads nothing.
//
// Offer a collector the packets of one stream in the order of the container until it needs no more; `finish` then
// returns those to keep. One thread per object.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "av/owners.h"
#include "base/time_window.h"

namespace spdl {

// For video: keeps packets from a key frame early enough that pictures are right from the start of the window on, to
// the last picture in the window, in decoding order.
class VideoCollector {
 public:
  struct Stream {
    AVRational time_base;
    bool from_start = true;         // packets come from the beginning; else from somewhere after a seek
    bool has_reliable_dts = true;   // no picture is displayed before its dts
  };

  // The parameters must outlive the collector.
  VideoCollector(TimeWindow window, const AVCodecParameters& parameters, const Stream& stream)
      : window_(TickWindow::of(window, stream.time_base.num, stream.time_base.den)),
        parameters_(parameters),
        stream_(stream),
        has_key_(stream.from_start) {}

  // False if no later packet is needed.
  bool offer(av::PacketPtr packet);
  // Whether the packets begin too late to decode the window, so that the caller must seek further back.
  bool began_too_late() const noexcept { return began_too_late_ || !has_key_ || (!stream_.from_start && !begins_clean_); }
  std::vector<av::PacketPtr> finish();

 private:
  bool is_past_end(const AVPacket& packet) const noexcept;
  bool starts_clean() const noexcept;
  void begin_at_key(const AVPacket& key);
  void drop_before(std::size_t index);

  TickWindow window_;
  const AVCodecParameters& parameters_;
  Stream stream_;
  bool has_key_;
  bool began_too_late_ = false;
  bool begins_clean_ = false;      // pictures are right from the start of the window on
  std::vector<av::PacketPtr> kept_;
  std::vector<std::size_t> keys_;  // indices in kept_ of key frames at or before the start
  std::size_t num_needed_ = 0;
  std::size_t num_late_ = 0;  // pictures that are displayed after the window
  std::size_t num_behind_ = 0;  // packets that came when no later one had a picture in the window
};

// What a decoder needs before the first wanted packet, to give the same samples as if it had decoded the whole stream.
// All three must be met: packets, a duration, and bytes of data.
struct Preroll {
  std::size_t num_packets = 0;
  double seconds = 0;
  std::size_t num_bytes = 0;
  std::size_t overhead_per_packet = 0;  // bytes of each packet that do not count
  std::size_t num_after_bytes = 0;      // packets between those bytes and the wanted packet
};

// What the samples are for: filters, which also read samples before the window; or only the samples of the window
// itself.
enum class SoundUse { kFilter, kExactly };

// None for a codec whose decoder has a state that goes back to the first packet, as those of speech and of most kinds of ADPCM
// have, or of which that is not known: only decoding from there gives the same samples.
std::optional<Preroll> preroll_of(const AVCodecParameters& parameters, SoundUse use) noexcept;

// For audio: keeps packets that overlap the window, packets before them that bring the decoder into the right state,
// and packets of a hundredth of a second after them, which a resampler needs for the last samples (libswresample: 16
// samples of the lower rate).
class AudioCollector {
 public:
  AudioCollector(TimeWindow window, AVRational time_base, Preroll preroll, bool from_start)
      : window_(window), time_base_(time_base), preroll_(preroll), from_start_(from_start) {}

  // Before the first packet, which has to be the stream's first: from now on the samples in packets tell their times, and not
  // their time stamps. `start`: the time of the first one. The parameters must outlive the collector.
  void count(const AVCodecParameters& parameters, double start) noexcept {
    counted_ = &parameters;
    next_time_ = count_start_ = start;
  }

  bool offer(av::PacketPtr packet);
  bool began_too_late() const noexcept { return !from_start_ && !first_needed(); }
  // The number of samples in the packets before those that `finish` returned; none if they were not counted.
  std::optional<std::int64_t> num_passed() const noexcept {
    return counted_ != nullptr ? std::optional(num_passed_) : std::nullopt;
  }
  // Of packets without a duration, which last until the next one, the duration is filled in.
  std::vector<av::PacketPtr> finish();
  // Whether the packets that `finish` returned begin with the first one that was offered.
  bool has_kept_first() const noexcept { return num_dropped_ == 0; }

 private:
  void drop(std::size_t count);
  // The index in kept_ where the pre-roll begins; none if it is not complete.
  std::optional<std::size_t> first_needed() const noexcept;
  // The last index in kept_ up to `last` from which on there are enough bytes; none if there are too few.
  std::optional<std::size_t> first_with_bytes(std::size_t last) const noexcept;

  TimeWindow window_;
  AVRational time_base_;
  Preroll preroll_;
  bool from_start_;
  std::vector<av::PacketPtr> kept_;
  std::vector<double> times_;   // start of each packet in kept_
  std::size_t num_dropped_ = 0;
  const AVCodecParameters* counted_ = nullptr;  // null if packets do not tell, or were not asked
  double count_start_ = 0;
  std::int64_t num_counted_ = 0;  // samples in all packets
  std::int64_t num_passed_ = 0;   // samples in packets that were dropped
  std::size_t num_before_ = 0;  // packets in kept_ that end before the window
  bool has_some_ = false;       // a packet in kept_ is in the window
  double next_time_ = 0;        // end of the last packet
};

}  // namespace spdl
