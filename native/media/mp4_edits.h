// What the header of an MP4 or QuickTime file says about the times of a track, and libav does not pass on in all versions: how
// long its data lasts, and which part of it is presented (ISO/IEC 14496-12, 8.4.2 and 8.6.6).

#pragma once

#include <cstdint>
#include <optional>

#include "media/block_reader.h"

namespace spdl {

struct Mp4Track {
  std::int64_t time_scale = 0;      // ticks of the media per second
  std::int64_t media_duration = 0;  // in ticks; 0 if unknown
  // The only edit that presents media: where in the media it starts, in ticks, and how long it lasts, in units of
  // 1 / movie_scale s; 0 if unknown. None if there is no edit list.
  struct Edit {
    std::int64_t media_time = 0;
    std::int64_t duration = 0;
  };
  std::optional<Edit> edit;
  std::int64_t movie_scale = 0;
  bool has_more_edits = false;  // than that one
  bool is_fragmented = false;   // the header does not have all samples
};

// The track with that identifier. None if the data is not what it should be.
std::optional<Mp4Track> read_mp4_track(std::int64_t file_size, std::int64_t track_id, const BytesAt& bytes_at);

// How much of the media is presented, in ticks: as the edit says or, without one, all. An edit whose end is that of the media but
// for the rounding to units of the movie ends with the media. None if unknown.
std::optional<std::int64_t> presented_ticks(const Mp4Track& track) noexcept;

}  // namespace spdl
