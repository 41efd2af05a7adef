// Seeking an opened container to a time, in the way that its format needs.
//
// Remembers what it has found out about the file. One thread per object.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "media/input.h"

namespace spdl {

class Seeker {
 public:
  // Moves the input to a key frame of the stream at or before that time, in the stream's time base. The caller has to check
  // where it lands. False if the format cannot seek, or the seek failed; the input must then be opened anew to be read.
  // Throws Error: kDemux, kTimeout; Cancelled. All calls must be with the same input.
  bool seek(Input& input, int stream, std::int64_t ticks);

  // Whether time stamps of the stream after a seek equal those of reading from the start.
  static bool has_reliable_times(const Input& input, int stream) noexcept;

 private:
  // Where the frames of an MP3 file lie, if they are all of one length.
  struct Mp3Frames {
    std::int64_t position = 0;  // of the first one
    std::int64_t pts = 0;       // of the first one
    std::int64_t duration = 0;
    double num_bytes = 0;                     // of each; 0 if they differ
    std::array<std::uint8_t, 3> header = {};  // what all begin with, but for their padding
  };

  bool seek_mp3(Input& input, std::int64_t ticks);
  static Mp3Frames find_mp3_frames(Input& input);
  std::optional<std::int64_t> position_of_mp3_frame(Input& input, std::int64_t number) const;

  std::optional<Mp3Frames> mp3_frames_;
};

}  // namespace spdl
