#include "media/edit_list.h"

extern "C" {
#include <libavutil/avutil.h>
#include <libavutil/mathematics.h>
}

#include <algorithm>
#include <limits>

namespace spdl {
namespace {

// So far apart that sums of two times do not overflow.
constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

bool is_near(std::int64_t time) noexcept { return time > -kFar && time < kFar; }

}  // namespace

std::optional<EditList> EditList::of(const Mp4Track& track) {
  const auto to_ticks = [&](std::int64_t units) { return av_rescale(units, track.time_scale, track.movie_scale); };
  const std::int64_t unit = to_ticks(1) + 1;
  EditList list;
  std::int64_t passed = 0;  // units of the movie
  for (const Mp4Track::Entry& entry : track.entries) {
    const bool is_last = &entry == &track.entries.back();
    const std::int64_t presented = to_ticks(passed);
    passed += entry.duration;
    const std::int64_t end = entry.duration == 0 && is_last ? kFar : to_ticks(passed);
    if (!is_near(presented) || end < presented || end > kFar) {
      return std::nullopt;
    }
    if (!entry.media_time) {
      continue;
    }
    const bool goes_back = !list.parts_.empty() && *entry.media_time < list.media_end(list.parts_.back()) - unit;
    if (!entry.has_plain_rate || end == presented || goes_back) {
      return std::nullopt;
    }
    list.parts_.push_back({*entry.media_time, presented, end - presented});
  }
  return list.parts_.empty() || track.has_odd_entries ? std::nullopt : std::optional(std::move(list));
}

std::int64_t EditList::media_end(const Part& part) const noexcept {
  const std::int64_t end = part.media + part.length;
  return &part == &parts_.back() ? end : std::min(end, (&part + 1)->media);
}

std::optional<std::int64_t> EditList::end() const noexcept {
  return parts_.back().end() < kFar ? std::optional(parts_.back().end()) : std::nullopt;
}

std::int64_t EditList::presented_at(std::int64_t media) const noexcept {
  std::int64_t before = -kFar;
  for (const Part& part : parts_) {
    if (media < media_end(part)) {
      return std::max(part.presented + (media - part.media), before);
    }
    before = part.end();
  }
  const Part& last = parts_.back();
  return last.presented + (media - last.media);
}

std::int64_t EditList::media_at(std::int64_t presented) const noexcept {
  if (!is_near(presented)) {
    return presented;
  }
  for (const Part& part : parts_) {
    if (presented < part.end()) {
      const std::int64_t since = presented - part.presented;
      return part.media + (&part == &parts_.front() ? since : std::max<std::int64_t>(since, 0));
    }
  }
  const Part& last = parts_.back();
  return last.media + (presented - last.presented);
}

void EditList::apply(AVPacket& packet) const noexcept {
  // Times of a broken file may be any numbers.
  if (is_near(packet.pts)) {
    const std::int64_t start = packet.pts;
    const std::int64_t end = start + std::clamp<std::int64_t>(packet.duration, 1, kFar);
    const auto part =
        std::ranges::find_if(parts_, [&](const Part& each) { return start < media_end(each) && each.media < end; });
    packet.pts = presented_at(start);
    if (part != parts_.end()) {
      packet.pts = std::max(packet.pts, part->presented);
      packet.duration = std::min(end, media_end(*part)) - std::max(start, part->media);
    } else {
      packet.flags |= AV_PKT_FLAG_DISCARD;
    }
  } else {
    packet.flags |= AV_PKT_FLAG_DISCARD;
  }
  if (is_near(packet.dts)) {
    packet.dts = presented_at(packet.dts);
  }
}

}  // namespace spdl
