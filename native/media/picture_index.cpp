#include "media/picture_index.h"

namespace spdl {

std::optional<PictureGrid> picture_grid(AVStream& from) {
  const int count = avformat_index_get_entries_count(&from);
  // Of two pictures any step is regular.
  if (count < 3 || from.nb_frames != count || from.start_time == AV_NOPTS_VALUE || from.time_base.num <= 0 ||
      from.time_base.den <= 0) {
    return std::nullopt;
  }
  std::int64_t first = 0;
  std::int64_t step = 0;
  for (int i = 0; i < count; ++i) {
    const AVIndexEntry* entry = avformat_index_get_entry(&from, i);
    if (entry == nullptr || (entry->flags & AVINDEX_DISCARD_FRAME) != 0) {
      return std::nullopt;
    }
    // Whose time stamps may be any numbers.
    std::int64_t passed = 0;
    std::int64_t expected = 0;
    if (i == 0) {
      first = entry->timestamp;
    } else if (__builtin_sub_overflow(entry->timestamp, first, &passed) || passed <= 0) {
      return std::nullopt;
    } else if (i == 1) {
      step = passed;
    } else if (__builtin_mul_overflow(step, static_cast<std::int64_t>(i), &expected) || passed != expected) {
      return std::nullopt;
    }
  }
  std::int64_t end = 0;
  if (__builtin_mul_overflow(step, static_cast<std::int64_t>(count), &end) ||
      __builtin_add_overflow(end, from.start_time, &end)) {
    return std::nullopt;
  }
  return PictureGrid{count, from.start_time, step, from.time_base};
}

}  // namespace spdl
