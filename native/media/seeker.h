// Seeking an opened container to a time, in the way that its format needs.
//
// Caches what it finds out about the file. One thread per object.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "media/input.h"
#include "media/mp3_index.h"
#include "media/mpeg_audio.h"

namespace spdl {

class Seeker {
 public:
  // Moves the input to a key frame of the stream at or before that time, in the stream's time base. The caller has to check
  // where it lands. False if the format cannot seek, or the seek failed; reopen the input then before reading. Throws
  // Error: kDemux, kTimeout; Cancelled. All calls must be with the same input.
  bool seek(Input& input, int stream, std::int64_t ticks);

  // Whether time stamps of the stream after a seek equal those of reading from the start.
  static bool has_reliable_times(const Input& input, int stream) noexcept;

 private:
  struct Mp3File {
    // Of the first frame.
    std::int64_t position = 0;
    std::int64_t pts = 0;
    std::array<std::uint8_t, kMpegAudioHeader> header = {};

    std::int64_t duration = 0;   // of each frame
    double frame_bytes = 0;      // on average; 0 if the bit rate varies, or may vary
    std::optional<Mp3Index> index;
  };

  static bool seek_flv(Input& input, int stream, std::int64_t ticks);
  bool seek_mp3(Input& input, std::int64_t ticks);
  static Mp3File look_into_mp3(Input& input);
  std::optional<std::int64_t> computed_mp3_position(Input& input, std::int64_t number) const;
  bool go_to_mp3_frame(Input& input, std::int64_t number, std::int64_t position, std::int64_t next) const;

  std::optional<Mp3File> mp3_;
};

}  // namespace spdl
