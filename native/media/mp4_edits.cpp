#include "media/mp4_edits.h"

extern "C" {
#include <libavformat/avio.h>
}

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "image/bytes.h"
#include "media/input.h"

namespace spdl {
namespace {

// A file may have any number of boxes.
constexpr int kMostBoxes = 1 << 16;
// Times are 32 or 64 bits wide. Sums and products of those below this one do not overflow 128 bits, nor doubles lose a tick.
constexpr std::int64_t kMostTicks = std::int64_t{1} << 52;

struct Box {
  std::uint32_t type = 0;
  std::int64_t begin = 0, end = 0;  // of what is in it
};

constexpr std::uint32_t type_of(std::string_view name) noexcept {
  std::uint32_t type = 0;
  for (const char letter : name) {
    type = type << 8 | static_cast<std::uint8_t>(letter);
  }
  return type;
}

std::int64_t number64(Bytes bytes, std::size_t offset) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(big_endian(bytes, offset, 4)) << 32 |
                                   big_endian(bytes, offset + 4, 4));
}

class Reader {
 public:
  explicit Reader(const BytesAt& bytes_at) : bytes_at_(bytes_at) {}

  // Calls `visit(box)` for each box in the span, until that returns false.
  void each(std::int64_t begin, std::int64_t end, const std::function<bool(const Box&)>& visit) {
    while (begin <= end - 8 && num_boxes_++ < kMostBoxes) {
      const Bytes header = bytes_at_(begin, 16);
      std::int64_t size = big_endian(header, 0, 4);
      std::int64_t header_size = 8;
      if (size == 1) {
        size = number64(header, 8);
        header_size = 16;
      } else if (size == 0) {
        size = end - begin;
      }
      if (header.size() < 8 || size < header_size || size > end - begin) {
        return;
      }
      if (!visit({big_endian(header, 4, 4), begin + header_size, begin + size})) {
        return;
      }
      begin += size;
    }
  }

  std::optional<Box> find(std::int64_t begin, std::int64_t end, std::string_view name) {
    std::optional<Box> found;
    each(begin, end, [&](const Box& box) {
      if (box.type == type_of(name)) {
        found = box;
      }
      return !found;
    });
    return found;
  }
  std::optional<Box> find(const std::optional<Box>& in, std::string_view name) {
    return in ? find(in->begin, in->end, name) : std::nullopt;
  }

  // The first bytes of a box.
  Bytes head(const Box& box, std::size_t size) const {
    return bytes_at_(box.begin, std::min(size, static_cast<std::size_t>(box.end - box.begin)));
  }

 private:
  const BytesAt& bytes_at_;
  int num_boxes_ = 0;
};

// Movie and media headers begin alike: scale and duration, behind times of creation and change of the same width.
struct Scale {
  std::int64_t scale = 0, duration = 0;
};

Scale scale_of(Bytes header) noexcept {
  const bool is_wide = byte_at(header, 0) == 1;
  const std::size_t at = is_wide ? 20 : 12;
  const std::int64_t duration = is_wide ? number64(header, at + 4) : big_endian(header, at + 4, 4);
  const bool is_unknown = duration == (is_wide ? -1 : std::numeric_limits<std::uint32_t>::max());
  return {big_endian(header, at, 4), is_unknown || duration < 0 || duration > kMostTicks ? 0 : duration};
}

void read_edits(Reader& reader, const Box& list, Mp4Track& track) {
  constexpr std::size_t kMostEdits = 100;
  constexpr std::uint32_t kPlainRate = 1 << 16;  // two numbers of 16 bits: 1 and 0
  const Bytes bytes = reader.head(list, 8 + 20 * kMostEdits);
  const bool is_wide = byte_at(bytes, 0) == 1;
  const std::size_t entry = is_wide ? 20 : 12;
  const std::size_t count = big_endian(bytes, 4, 4);
  for (std::size_t i = 0; i < std::min(count, kMostEdits); ++i) {
    const std::size_t at = 8 + i * entry;
    if (at + entry > bytes.size()) {
      break;
    }
    const std::int64_t duration = is_wide ? number64(bytes, at) : big_endian(bytes, at, 4);
    const std::int64_t time = is_wide ? number64(bytes, at + 8) : static_cast<std::int32_t>(big_endian(bytes, at + 4, 4));
    const bool is_possible = time >= -1 && time <= kMostTicks && duration >= 0 && duration <= kMostTicks;
    track.has_odd_entries = track.has_odd_entries || !is_possible;
    track.entries.push_back({std::clamp<std::int64_t>(duration, 0, kMostTicks),
                             time == -1 ? std::nullopt : std::optional(time),
                             big_endian(bytes, at + entry - 4, 4) == kPlainRate});
    if (time == -1) {
      continue;  // shows nothing
    }
    if (track.edit || time < 0 || time > kMostTicks || duration < 0 || duration > kMostTicks) {
      track.has_more_edits = true;
    } else {
      track.edit = {time, duration};
    }
  }
  track.has_more_edits = track.has_more_edits || count > kMostEdits;
  track.has_odd_entries = track.has_odd_entries || count > kMostEdits;
}

}  // namespace

std::optional<Mp4Track> read_mp4_track(std::int64_t file_size, std::int64_t track_id, const BytesAt& bytes_at) {
  Reader reader(bytes_at);
  const std::optional<Box> movie = reader.find(0, file_size, "moov");
  if (!movie) {
    return std::nullopt;
  }
  Mp4Track track;
  std::optional<Box> wanted;
  reader.each(movie->begin, movie->end, [&](const Box& box) {
    if (box.type == type_of("mvhd")) {
      track.movie_scale = scale_of(reader.head(box, 32)).scale;
    } else if (box.type == type_of("mvex")) {
      track.is_fragmented = true;
    } else if (box.type == type_of("trak") && !wanted) {
      if (const auto header = reader.find(box.begin, box.end, "tkhd")) {
        const Bytes bytes = reader.head(*header, 24);
        if (big_endian(bytes, byte_at(bytes, 0) == 1 ? 20 : 12, 4) == track_id) {
          wanted = box;
        }
      }
    }
    return true;
  });
  const auto media = reader.find(reader.find(wanted, "mdia"), "mdhd");
  if (!media) {
    return std::nullopt;
  }
  const Scale scale = scale_of(reader.head(*media, 32));
  track.time_scale = scale.scale;
  track.media_duration = scale.duration;
  if (const auto list = reader.find(reader.find(wanted, "edts"), "elst")) {
    read_edits(reader, *list, track);
  }
  return track.time_scale > 0 && track.movie_scale > 0 ? std::optional(track) : std::nullopt;
}

std::optional<Mp4Track> read_mp4_track(Input& input, const AVStream& stream) {
  AVIOContext* io = input.context().pb;
  if (io == nullptr || (io->seekable & AVIO_SEEKABLE_NORMAL) == 0) {
    return std::nullopt;
  }
  if (auto known = input.known_track(stream.id)) {
    return known;
  }
  const bool was_at_start = input.is_at_start();
  const std::int64_t position = avio_tell(io);
  BlockReader reader([&](std::int64_t from, std::span<std::uint8_t> into) { return input.read_at(from, into); });
  const auto track = read_mp4_track(avio_size(io), stream.id, std::ref(reader));
  avio_seek(io, position, SEEK_SET);
  input.set_at_start(was_at_start);
  return track;
}

bool Mp4Track::has_other_speed() const noexcept {
  return std::ranges::any_of(entries, [](const Entry& each) { return each.media_time && !each.has_plain_rate; });
}

std::optional<std::int64_t> presented_ticks(const Mp4Track& track) noexcept {
  if (track.has_more_edits) {
    return std::nullopt;
  }
  const std::int64_t start = track.edit ? track.edit->media_time : 0;
  const std::optional<std::int64_t> rest =
      track.media_duration > start ? std::optional(track.media_duration - start) : std::nullopt;
  if (!track.edit || track.edit->duration == 0) {
    return rest;
  }
  const double unit = static_cast<double>(track.time_scale) / static_cast<double>(track.movie_scale);
  const double edited = static_cast<double>(track.edit->duration) * unit;
  if (rest && std::abs(static_cast<double>(*rest) - edited) < unit) {
    return rest;
  }
  return edited < static_cast<double>(kMostTicks) ? std::optional(static_cast<std::int64_t>(edited + 0.5)) : std::nullopt;
}

}  // namespace spdl
