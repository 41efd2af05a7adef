#include "media/flv_tags.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace spdl {
namespace {

constexpr std::int64_t kHeader = 11;       // bytes before the data of a tag
constexpr std::int64_t kBackPointer = 4;   // bytes after it
constexpr std::uint8_t kScript = 18;       // the type of a tag with metadata

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) noexcept {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : bytes) {
    value = value << 8 | byte;
  }
  return value;
}

struct Tag {
  std::int64_t position = 0;
  std::int64_t size = 0;  // with its header
  std::int64_t dts = 0;
  std::uint8_t type = 0;
  bool is_coded = false;  // has a frame, not what describes the codec
  bool is_key = false;

  std::int64_t end() const noexcept { return position + size + kBackPointer; }
};

// Whether the data of a tag, of which these are the first bytes, is a frame of its stream; and whether it is a key frame.
void judge(Tag& tag, std::span<const std::uint8_t> data) noexcept {
  if (tag.type == static_cast<std::uint8_t>(FlvStream::kAudio)) {
    constexpr int kAac = 10;
    constexpr int kExtended = 9;  // in Enhanced RTMP, where other codecs have names
    const int codec = data[0] >> 4;
    tag.is_coded = codec != kExtended && (codec != kAac || (data.size() > 1 && data[1] == 1));
    return;
  }
  constexpr std::uint8_t kExtended = 0x80;
  constexpr int kAvc = 7;
  constexpr int kHevc = 12;  // by an older convention
  constexpr int kKeyFrame = 1;
  constexpr int kCommand = 5;
  const int codec = data[0] & 0xf;
  const int frame_type = data[0] >> 4 & 7;
  tag.is_key = frame_type == kKeyFrame;
  if ((data[0] & kExtended) != 0) {
    tag.is_coded = codec == 1 || codec == 3;  // there, the kind of packet: frames, with and without a composition time
  } else if (codec == kAvc || codec == kHevc) {
    tag.is_coded = data.size() > 1 && data[1] == 1;
  } else {
    tag.is_coded = frame_type != kCommand;
  }
}

class Tags {
 public:
  Tags(std::int64_t file_size, const BytesAt& bytes_at) : file_size_(file_size), bytes_at_(bytes_at) {}

  // The position of the first tag; none if the file does not begin like an FLV file.
  std::optional<std::int64_t> first() const {
    const auto header = bytes_at_(0, 9);
    if (header.size() < 9 || header[0] != 'F' || header[1] != 'L' || header[2] != 'V') {
      return std::nullopt;
    }
    const std::int64_t position = std::int64_t{big_endian(header.subspan(5, 4))} + kBackPointer;
    return is_chain(position) ? std::optional(position) : std::nullopt;
  }

  // None if there is no tag with a right back pointer behind it.
  std::optional<Tag> at(std::int64_t position) const {
    const auto tag = header_at(position);
    if (!tag) {
      return std::nullopt;
    }
    const auto pointer = bytes_at_(position + tag->size, kBackPointer);
    const bool is_right = pointer.size() == kBackPointer && big_endian(pointer) == tag->size;
    return is_right ? tag : std::nullopt;
  }

  // The tag before the one at that position.
  std::optional<Tag> before(std::int64_t position) const {
    const auto pointer = bytes_at_(position - kBackPointer, kBackPointer);
    const std::int64_t size = pointer.size() == kBackPointer ? big_endian(pointer) : 0;
    const std::int64_t start = position - kBackPointer - size;
    const auto tag = size < kHeader || start < 0 ? std::nullopt : header_at(start);
    return tag && tag->size == size ? tag : std::nullopt;
  }

  // The first tag of the stream with a frame, from a position in any tag to `limit`.
  std::optional<Tag> next_of(FlvStream stream, std::int64_t position, std::int64_t limit) const {
    // Looking at one may read two blocks, and data may be full of them.
    constexpr int kMostCandidates = 64;
    for (int i = 0; i < kMostCandidates && position < limit; ++i) {
      if (is_chain(position)) {
        return from(stream, position, limit);
      }
      position = next_candidate(position + 1, limit);
    }
    return std::nullopt;
  }

  // The same, from the position of a tag.
  std::optional<Tag> from(FlvStream stream, std::int64_t position, std::int64_t limit) const {
    while (position < limit) {
      const auto tag = at(position);
      if (!tag) {
        break;
      }
      if (tag->is_coded && tag->type == static_cast<std::uint8_t>(stream)) {
        return tag;
      }
      position = tag->end();
    }
    return std::nullopt;
  }

 private:
  std::optional<Tag> header_at(std::int64_t position) const {
    const auto bytes = bytes_at_(position, kHeader + 2);
    if (bytes.size() < kHeader || !may_begin(bytes)) {
      return std::nullopt;
    }
    Tag tag;
    tag.position = position;
    tag.size = kHeader + big_endian(bytes.subspan(1, 3));
    tag.dts = std::int64_t{big_endian(bytes.subspan(4, 3))} | std::int64_t{bytes[7]} << 24;
    tag.type = bytes[0];
    if (tag.end() > file_size_) {
      return std::nullopt;
    }
    if (tag.size > kHeader && tag.type != kScript) {
      judge(tag, bytes.subspan(kHeader, static_cast<std::size_t>(std::min<std::int64_t>(tag.size - kHeader, 2))));
    }
    return tag;
  }

  // A known type, and the number of the stream, which is always 0.
  static bool may_begin(std::span<const std::uint8_t> bytes) noexcept {
    return (bytes[0] == 8 || bytes[0] == 9 || bytes[0] == kScript) && bytes[8] == 0 && bytes[9] == 0 && bytes[10] == 0;
  }

  // Whether tags begin here, one directly behind the other. Three are enough: their back pointers have 96 bits.
  bool is_chain(std::int64_t position) const {
    constexpr int kEnough = 3;
    for (int i = 0; i < kEnough; ++i) {
      if (i > 0 && position == file_size_) {
        return true;
      }
      const auto tag = at(position);
      if (!tag) {
        return false;
      }
      position = tag->end();
    }
    return true;
  }

  // The first position from there on that looks as if a tag began behind another one; `limit` if there is none.
  std::int64_t next_candidate(std::int64_t position, std::int64_t limit) const {
    constexpr std::size_t kStep = 4096;
    constexpr std::size_t kNeeded = kBackPointer + kHeader;
    while (position < limit) {
      const auto bytes = bytes_at_(position - kBackPointer, kStep);
      if (bytes.size() < kNeeded) {
        break;
      }
      const std::size_t count = bytes.size() - kNeeded + 1;
      for (std::size_t i = 0; i < count; ++i) {
        if (may_begin(bytes.subspan(i + kBackPointer, kHeader))) {
          const std::int64_t at = position + static_cast<std::int64_t>(i);
          const std::int64_t size_before = big_endian(bytes.subspan(i, kBackPointer));
          if (size_before >= kHeader && size_before < at) {
            return std::min(at, limit);
          }
        }
      }
      position += static_cast<std::int64_t>(count);
    }
    return limit;
  }

  std::int64_t file_size_;
  const BytesAt& bytes_at_;
};

}  // namespace

std::optional<FlvPlace> find_flv_tag(FlvStream stream, std::int64_t dts, std::int64_t file_size, const BytesAt& bytes_at) {
  const Tags tags(file_size, bytes_at);
  const auto first = tags.first();
  if (!first) {
    return std::nullopt;
  }
  // Walking is cheaper than another step from here on.
  constexpr std::int64_t kNear = 1 << 17;
  std::int64_t low = *first;       // of a tag that is not too late
  std::int64_t high = file_size;   // no tag of the stream from here on is early enough
  while (high - low > kNear) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto tag = tags.next_of(stream, middle, high);
    if (tag && tag->dts <= dts) {
      low = tag->position;
    } else {
      high = middle;
    }
  }
  std::optional<Tag> last;
  for (auto tag = tags.from(stream, low, high); tag && tag->dts <= dts; tag = tags.from(stream, tag->end(), high)) {
    if (stream == FlvStream::kAudio || tag->is_key) {
      last = tag;
    }
  }
  for (std::int64_t position = low; !last && position > *first;) {
    const auto tag = tags.before(position);
    if (!tag) {
      return std::nullopt;
    }
    if (tag->is_coded && tag->is_key && tag->type == static_cast<std::uint8_t>(stream)) {
      last = tag;
    }
    position = tag->position;
  }
  if (!last) {
    return std::nullopt;
  }
  return FlvPlace{last->position, last->dts};
}

}  // namespace spdl
