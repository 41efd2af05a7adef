#include "media/matroska_check.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace spdl {
namespace {

constexpr std::uint32_t kHeader = 0x1A45DFA3, kSegment = 0x18538067, kCluster = 0x1F43B675, kTracks = 0x1654AE6B;
constexpr std::uint32_t kTrackEntry = 0xAE, kTrackNumber = 0xD7, kLacing = 0x9C, kSimpleBlock = 0xA3, kBlockGroup = 0xA0, kBlock = 0xA1;

template <std::size_t N>
constexpr bool is_in(const std::array<std::uint32_t, N>& ids, std::uint32_t id) noexcept {
  return std::ranges::find(ids, id) != ids.end();
}

// Everywhere: void and checksum.
constexpr std::array<std::uint32_t, 2> kGlobal = {0xEC, 0xBF};
// Of a segment: seek head, info, tracks, chapters, clusters, cues, attachments, tags; and what stands before it.
constexpr std::array<std::uint32_t, 10> kOfTop = {0x114D9B74, 0x1549A966, kTracks,    0x1043A770, kCluster,
                                                  0x1C53BB6B, 0x1941A469, 0x1254C367, kHeader,    kSegment};
// Timestamp, silent tracks, position, size of the one before, blocks.
constexpr std::array<std::uint32_t, 7> kOfCluster = {0xE7, 0x5854, 0xA7, 0xAB, kSimpleBlock, kBlockGroup, 0xAF};
// Block, virtual block, additions, duration, references, state of the codec, padding, slices, reference frame.
constexpr std::array<std::uint32_t, 11> kOfGroup = {kBlock, 0xA2, 0x75A1, 0x9B, 0xFA, 0xFB, 0xFD, 0xA4, 0x75A2, 0x8E, 0xC8};

constexpr std::size_t kMostNumber = 8;  // bytes

// Of a number whose first byte says by leading zeros how long it is; 0 if it is too long.
std::size_t length_of(std::uint8_t first, std::size_t most) noexcept {
  const auto length = static_cast<std::size_t>(std::countl_zero(first)) + 1;
  return length <= most ? length : 0;
}

std::uint64_t number_of(std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t number = 0;
  for (const std::uint8_t each : bytes) {
    number = number << 8 | each;
  }
  return number;
}

// Without the bit that says its length.
std::uint64_t value_of(std::span<const std::uint8_t> bytes) noexcept {
  return number_of(bytes) & ((std::uint64_t{1} << (7 * bytes.size())) - 1);
}

}  // namespace

bool MatroskaCheck::is_damaged(std::int64_t first, std::int64_t last) const noexcept {
  const auto found = damages_.upper_bound(first);
  return found != damages_.end() && *found <= last;
}

void MatroskaCheck::start_at(std::int64_t position) noexcept {
  open_.assign(1, Master{});
  next_ = position;
  num_held_ = 0;
  is_lost_ = false;
  is_unsure_ = position != 0;
}

void MatroskaCheck::see(std::int64_t position, std::span<const std::uint8_t> bytes) {
  if (!is_matroska_ || bytes.empty()) {
    return;
  }
  // What is within an element may be left out.
  const bool goes_on = position == seen_ || (position > seen_ && next_ >= position && !is_lost_);
  if (!goes_on) {
    start_at(position);
  }
  seen_ = position + static_cast<std::int64_t>(bytes.size());
  std::size_t at = 0;
  for (;;) {
    if (is_lost_) {
      while (is_lost_ && at < bytes.size()) {
        last_bytes_ = last_bytes_ << 8 | bytes[at++];
        is_lost_ = last_bytes_ != kCluster;
      }
      if (is_lost_) {
        return;
      }
      start_at(position + static_cast<std::int64_t>(at) - 4);
      is_unsure_ = false;
      num_held_ = 4;
      std::ranges::copy(std::to_array<std::uint8_t>({0x1F, 0x43, 0xB6, 0x75}), head_.begin());
    }
    const std::int64_t from = next_ + static_cast<std::int64_t>(num_held_);
    if (from < seen_) {
      at = static_cast<std::size_t>(std::max<std::int64_t>(from - position, 0));
      const std::size_t count = std::min(head_.size() - num_held_, bytes.size() - at);
      std::memcpy(head_.data() + num_held_, bytes.data() + at, count);
      num_held_ += count;
      at += count;
    }
    switch (next()) {
      case Step::kNeedsMore:
        return;
      case Step::kIsLost:
        is_lost_ = true;
        last_bytes_ = 0;
        at = static_cast<std::size_t>(std::max<std::int64_t>(next_ - position, 0));
        break;
      case Step::kGoOn:
        break;
    }
  }
}

// The head of the element that begins at `next_`; false if not enough of it is known.
bool MatroskaCheck::read(Element& element, bool& is_valid) const noexcept {
  const std::span<const std::uint8_t> held(head_.data(), num_held_);
  is_valid = true;
  if (held.empty()) {
    return false;
  }
  const std::size_t id_length = length_of(held[0], 4);
  if (id_length == 0) {
    is_valid = false;
    return true;
  }
  if (held.size() <= id_length) {
    return false;
  }
  element.id = static_cast<std::uint32_t>(number_of(held.first(id_length)));
  const std::size_t size_length = length_of(held[id_length], kMostNumber);
  const std::size_t length = id_length + size_length;
  if (size_length == 0) {
    is_valid = false;
    return true;
  }
  if (held.size() < length) {
    return false;
  }
  const std::uint64_t size = value_of(held.subspan(id_length, size_length));
  const bool is_unknown = size == (std::uint64_t{1} << (7 * size_length)) - 1;
  element.begin = next_ + static_cast<std::int64_t>(length);
  if (is_unknown || size > static_cast<std::uint64_t>(kUnknown - element.begin)) {
    element.end = kUnknown;
    is_valid = element.id == kSegment || element.id == kCluster;
    return true;
  }
  element.end = element.begin + static_cast<std::int64_t>(size);
  const bool is_block = element.id == kSimpleBlock || element.id == kBlock;
  if (is_block || element.id == kTrackNumber || element.id == kLacing) {
    constexpr std::size_t kRest = 3;  // time and flags
    const std::size_t most = is_block ? kMostNumber + kRest : kMostNumber;
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size, most));
    if (held.size() < length + wanted) {
      return false;
    }
    const auto number = held.subspan(length, wanted);
    if (is_block) {
      const std::size_t number_length = number.empty() ? 0 : length_of(number[0], kMostNumber);
      is_valid = number_length > 0 && size >= number_length + kRest;
      element.number = is_valid ? value_of(number.first(number_length)) : 0;
      element.is_laced = is_valid && (number[number_length + kRest - 1] & 0x06) != 0;
    } else {
      element.number = number_of(number);
    }
  }
  return true;
}

// Whether it may be where it is.
bool MatroskaCheck::has_place(const Element& element) {
  const Master& in = open_.back();
  if (element.end > in.end) {
    return false;
  }
  if (is_in(kGlobal, element.id)) {
    return true;
  }
  const auto track = tracks_.find(element.number);
  const bool is_right_block = tracks_.empty() || (track != tracks_.end() && (track->second || !element.is_laced));
  switch (in.kind) {
    case Kind::kTop:
      return is_in(kOfTop, element.id);
    case Kind::kCluster:
      return is_in(kOfCluster, element.id) && (element.id != kSimpleBlock || is_right_block);
    case Kind::kGroup:
      return is_in(kOfGroup, element.id) && (element.id != kBlock || is_right_block);
    default:
      return true;  // damage of the header is for libav to notice
  }
}

void MatroskaCheck::advance(std::int64_t position) noexcept {
  const std::int64_t passed = position - next_;
  if (passed < static_cast<std::int64_t>(num_held_)) {
    std::memmove(head_.data(), head_.data() + passed, num_held_ - static_cast<std::size_t>(passed));
    num_held_ -= static_cast<std::size_t>(passed);
  } else {
    num_held_ = 0;
  }
  next_ = position;
}

MatroskaCheck::Step MatroskaCheck::next() {
  while (next_ >= open_.back().end) {
    open_.pop_back();
  }
  Element element;
  bool is_valid = false;
  if (!read(element, is_valid)) {
    return Step::kNeedsMore;
  }
  if (next_ == 0 && (!is_valid || element.id != kHeader)) {
    is_matroska_ = false;
    return Step::kNeedsMore;
  }
  // One of unknown length ends where there is what cannot be in it.
  if (is_valid && open_.back().kind == Kind::kCluster && open_.back().end == kUnknown && is_in(kOfTop, element.id)) {
    open_.pop_back();
  }
  if (!is_valid || !has_place(element)) {
    const bool is_behind_all = open_.size() == 1 && next_ >= segment_end_;
    if (!is_unsure_ && !is_behind_all) {
      damages_.insert(next_);
    }
    advance(next_ + 1);
    num_held_ = 0;
    return Step::kIsLost;
  }
  is_unsure_ = false;
  const auto enter = [&](Kind kind) {
    open_.push_back({kind, element.end});
    advance(element.begin);
  };
  switch (element.id) {
    case kSegment:
      segment_end_ = element.end;
      advance(element.begin);
      break;
    case kCluster:
      enter(Kind::kCluster);
      break;
    case kTracks:
      enter(Kind::kTracks);
      break;
    case kTrackEntry:
      track_ = 0;
      open_.back().kind == Kind::kTracks ? enter(Kind::kTrack) : advance(element.end);
      break;
    case kBlockGroup:
      open_.back().kind == Kind::kCluster ? enter(Kind::kGroup) : advance(element.end);
      break;
    default:
      if (element.id == kTrackNumber && open_.back().kind == Kind::kTrack) {
        track_ = element.number;
        tracks_.emplace(track_, true);
      } else if (element.id == kLacing && open_.back().kind == Kind::kTrack) {
        tracks_[track_] = element.number != 0;
      }
      advance(element.end);
  }
  return Step::kGoOn;
}

}  // namespace spdl
