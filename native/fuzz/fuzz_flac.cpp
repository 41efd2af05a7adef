// Frames of FLAC files: whatever the bytes are, those that are found follow each other, are where they are said to be,
// and hold the samples that were asked for.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fuzz/target.h"
#include "media/flac_frames.h"

void fuzz(std::span<const std::uint8_t> data) {
  if (data.size() < 4) {
    return;
  }
  const std::int64_t first = (data[0] << 8 | data[1]) - 1;
  const std::int64_t end = first + (data[2] << 8 | data[3]);
  const auto file = data.subspan(4);
  const spdl::BytesAt bytes_at = [&](std::int64_t position, std::size_t size) {
    const auto from = std::min(static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(file.size()));
    const auto rest = file.subspan(static_cast<std::size_t>(from));
    return rest.first(std::min({size, rest.size(), std::size_t{4096}}));
  };
  const auto stream = spdl::read_flac_stream(bytes_at);
  if (!stream) {
    return;
  }
  const auto found = spdl::find_flac_frames(*stream, static_cast<std::int64_t>(file.size()), first, end, bytes_at);
  if (!found) {
    return;
  }
  std::size_t num_bytes = 0;
  for (std::size_t i = 0; i < found->frames.size(); ++i) {
    const spdl::FlacFrame& frame = found->frames[i];
    const bool follows = i == 0 || (frame.first == found->frames[i - 1].first + found->frames[i - 1].num_samples &&
                                    frame.position == found->frames[i - 1].position +
                                                          static_cast<std::int64_t>(found->frames[i - 1].num_bytes));
    const bool is_wanted = frame.first < end && frame.first + frame.num_samples > first;
    const auto position = static_cast<std::size_t>(frame.position);
    if (!follows || !is_wanted || frame.num_bytes > file.size() - position ||
        frame.num_bytes > found->bytes.size() - num_bytes ||
        std::memcmp(file.data() + position, found->bytes.data() + num_bytes, frame.num_bytes) != 0) {
      std::abort();
    }
    num_bytes += frame.num_bytes;
  }
  if (num_bytes != found->bytes.size() || (!found->frames.empty() && found->frames.front().first > std::max<std::int64_t>(first, 0))) {
    std::abort();
  }
}
