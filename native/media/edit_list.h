// The parts of a track that its edit list presents, and when (ISO/IEC 14496-12, 8.6.6). Times are ticks of the media.
//
// libav makes an index of them, with the pictures that have to be decoded before each part. If a list has several parts, it
// places them up to the reordering of B-frames too early (libavformat/mov.c, mov_fix_index: FFmpeg 5.1 to 9.0), and where a
// part begins within a gradual refresh, its first pictures are missing. So pictures are read by the times of their media, and
// packets get the times at which they are presented.

#pragma once

extern "C" {
#include <libavcodec/packet.h>
}

#include <cstdint>
#include <optional>
#include <vector>

#include "media/mp4_edits.h"

namespace spdl {

class EditList {
 public:
  // None if parts are presented in another order than that of the media, again, or at another speed.
  static std::optional<EditList> of(const Mp4Track& track);

  // Gives a packet of a picture the times at which it is presented, and marks it if it is not. A picture that is on screen
  // where a part begins is presented from there on.
  void apply(AVPacket& packet) const noexcept;
  // The time in the media of what is presented then; of what comes next, where nothing is.
  std::int64_t media_at(std::int64_t presented) const noexcept;
  std::int64_t start() const noexcept { return parts_.front().presented; }
  // None if the last part goes on to the end of the media.
  std::optional<std::int64_t> end() const noexcept;
  // When that time of the media is presented. Never decreases from one time to a later one, so that no picture comes before it
  // is decoded: what is not presented comes right before the next part, but not within the part before it.
  std::int64_t presented_at(std::int64_t media) const noexcept;

 private:
  struct Part {
    std::int64_t media = 0;
    std::int64_t presented = 0;
    std::int64_t length = 0;  // on screen

    std::int64_t end() const noexcept { return presented + length; }
  };

  // Where the part ends in the media. Durations are rounded to units of the movie, so it may end a little behind the start of
  // the next one.
  std::int64_t media_end(const Part& part) const noexcept;

  std::vector<Part> parts_;
};

}  // namespace spdl
