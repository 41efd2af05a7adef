// What the header of an MP4 or QuickTime file says about the times of a track, and libav does not pass on in all versions: how
// long its data lasts, and which part of it is presented (ISO/IEC 14496-12, 8.4.2 and 8.6.6).

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/block_reader.h"

struct AVStream;

namespace spdl {

class Input;

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
  // All of the edit list, but for those behind the first hundred.
  struct Entry {
    std::int64_t duration = 0;               // in units of the movie
    std::optional<std::int64_t> media_time;  // none where nothing is presented
    bool has_plain_rate = true;
  };
  std::vector<Entry> entries;
  bool has_odd_entries = false;  // more, or such with impossible numbers
  bool has_more_edits = false;  // than that one
  bool is_fragmented = false;   // the header does not have all samples

  // Whether something is presented faster or slower, or stands still.
  bool has_other_speed() const noexcept;
};

// The track with that identifier. None if the data is not what it should be.
std::optional<Mp4Track> read_mp4_track(std::int64_t file_size, std::int64_t track_id, const BytesAt& bytes_at);

// The track of that stream. None as well if the input cannot seek. Leaves it where it is.
std::optional<Mp4Track> read_mp4_track(Input& input, const AVStream& stream);

// How much of the media is presented, in ticks: as the edit says or, without one, all. An edit whose end is that of the media but
// for the rounding to units of the movie ends with the media. None if unknown.
std::optional<std::int64_t> presented_ticks(const Mp4Track& track) noexcept;

}  // namespace spdl
