#include "media/ogg_pages.h"

extern "C" {
#include <libavutil/crc.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "image/bytes.h"

namespace spdl {
namespace {

constexpr std::string_view kCapture = "OggS";
constexpr std::size_t kFixedHeader = 27;
constexpr std::size_t kChecksumAt = 22;
constexpr std::size_t kLongestHeader = kFixedHeader + 255;
constexpr std::size_t kLongestPage = kLongestHeader + 255 * 255;
constexpr std::size_t kPiece = 4096;  // that BytesAt gives at once
constexpr std::size_t kWhole = 255;   // a packet goes on behind a segment of this length
constexpr std::int64_t kMostGranule = std::int64_t{1} << 60;  // within what can be added to

// In the order of bytes in which libav computes it.
std::uint32_t checksum_of(std::span<const std::uint8_t> page) noexcept {
  constexpr std::array<std::uint8_t, 4> kZeros{};
  const AVCRC* table = av_crc_get_table(AV_CRC_32_IEEE);
  std::uint32_t crc = av_crc(table, 0, page.data(), kChecksumAt);
  crc = av_crc(table, crc, kZeros.data(), kZeros.size());
  const auto rest = page.subspan(kChecksumAt + kZeros.size());
  return av_crc(table, crc, rest.data(), rest.size());
}

// Looks for one page in a file. One thread per object.
class Search {
 public:
  Search(std::int64_t file_size, std::int64_t granule, const BytesAt& bytes_at)
      : file_size_(file_size), granule_(granule), bytes_at_(bytes_at) {}

  std::optional<OggPage> find(std::int64_t last_granule) {
    const auto first = read_ogg_page(0, bytes_at_);
    if (!first) {
      return std::nullopt;
    }
    low_ = *first;
    low_.granule = 0;
    std::int64_t high = file_size_;
    std::int64_t high_granule = std::max(last_granule, granule_);
    constexpr int kMostSteps = 64;
    for (int step = 0; step < kMostSteps; ++step) {
      const std::int64_t size = high - low_.end();
      const double share = static_cast<double>(granule_ - low_.granule) /
                           static_cast<double>(std::max<std::int64_t>(high_granule - low_.granule, 1));
      const auto ahead = static_cast<std::int64_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(size));
      if (size <= kNear || ahead <= kNear) {
        const auto is_there = walk();
        if (!is_there || *is_there) {
          return is_there && low_.position > 0 ? std::optional(low_) : std::nullopt;
        }
        continue;
      }
      // A page or two before the place, as pages behind it are of no use; now and then in the middle, where the bit rate
      // varies a lot.
      const std::int64_t distance = step % 4 == 3 ? size / 2 : ahead - kMargin;
      const std::int64_t guess = low_.end() + std::clamp<std::int64_t>(distance, 0, std::max<std::int64_t>(size - 1, 0));
      const auto found = page_from(guess, high);
      if (!found) {
        return std::nullopt;
      }
      if (found->position < high && found->granule <= granule_) {
        low_ = *found;
        continue;
      }
      if (found->position < high) {
        high_granule = found->granule;
      }
      high = guess;
    }
    return std::nullopt;
  }

 private:
  // Goes on from page to page. True once the next one is too late, false if that takes too long; none if there is no
  // page where one should be.
  std::optional<bool> walk() {
    OggPage page = low_;
    const std::int64_t limit = low_.end() + kFar;
    while (page.end() < limit) {
      if (page.end() == file_size_) {
        return true;
      }
      const auto next = read_ogg_page(page.end(), bytes_at_);
      if (!next || next->serial != low_.serial || next->number != page.number + 1) {
        return std::nullopt;
      }
      page = *next;
      if (page.granule > granule_) {
        return true;
      }
      // Pages of the headers have granule position 0.
      if (page.granule > 0) {
        low_ = page;
      }
    }
    return false;
  }

  // The first page from there on that has a granule position, and another page behind it. At `high` if there is none
  // before; none if no page is where one has to be.
  std::optional<OggPage> page_from(std::int64_t position, std::int64_t high) const {
    const std::int64_t limit = std::min(high, position + static_cast<std::int64_t>(2 * kLongestPage));
    while (position < limit) {
      const auto bytes = bytes_at_(position, kPiece);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const std::size_t at = text.find(kCapture);
      if (at == std::string_view::npos) {
        if (bytes.size() < kCapture.size()) {
          position = limit;
          break;
        }
        position += static_cast<std::int64_t>(bytes.size() - kCapture.size() + 1);
        continue;
      }
      position += static_cast<std::int64_t>(at);
      const auto page = read_ogg_page(position, bytes_at_);
      if (page && is_ours(*page) && page->granule != kNoGranule) {
        return page;
      }
      ++position;
    }
    if (position < high) {
      return std::nullopt;
    }
    OggPage none;
    none.position = high;
    return none;
  }

  bool is_ours(const OggPage& page) const {
    if (page.serial != low_.serial || page.number <= low_.number || page.end() > file_size_) {
      return false;
    }
    if (page.end() == file_size_) {
      return true;
    }
    const auto next = read_ogg_page(page.end(), bytes_at_);
    return next && next->serial == page.serial && next->number == page.number + 1;
  }

  static constexpr std::int64_t kNear = 1 << 15;
  static constexpr std::int64_t kFar = 1 << 18;
  static constexpr std::int64_t kMargin = 8192;

  std::int64_t file_size_;
  std::int64_t granule_;
  const BytesAt& bytes_at_;
  OggPage low_;
};

}  // namespace

std::optional<OggPage> read_ogg_page(std::int64_t position, const BytesAt& bytes_at) {
  const auto bytes = bytes_at(position, kLongestHeader);
  constexpr std::uint8_t kVersion = 0;
  constexpr std::uint8_t kContinued = 1, kFirst = 2, kLast = 4, kFlags = 7;
  if (bytes.size() < kFixedHeader || std::memcmp(bytes.data(), kCapture.data(), kCapture.size()) != 0 ||
      bytes[4] != kVersion || bytes[5] > kFlags) {
    return std::nullopt;
  }
  const std::size_t num_segments = bytes[26];
  if (bytes.size() < kFixedHeader + num_segments) {
    return std::nullopt;
  }
  OggPage page;
  page.position = position;
  page.num_header_bytes = kFixedHeader + num_segments;
  page.num_bytes = page.num_header_bytes;
  for (const std::uint8_t length : bytes.subspan(kFixedHeader, num_segments)) {
    page.num_bytes += length;
    page.num_ends += length < kWhole ? 1 : 0;
  }
  page.granule = static_cast<std::int64_t>(std::uint64_t{little_endian(bytes, 10, 4)} << 32 | little_endian(bytes, 6, 4));
  page.serial = little_endian(bytes, 14, 4);
  page.number = little_endian(bytes, 18, 4);
  page.checksum = static_cast<std::uint32_t>(big_endian(bytes, kChecksumAt, 4));
  page.is_continued = (bytes[5] & kContinued) != 0;
  page.is_first = (bytes[5] & kFirst) != 0;
  page.is_last = (bytes[5] & kLast) != 0;
  return page;
}

std::optional<OggPage> find_ogg_page(std::int64_t file_size, std::int64_t granule, std::int64_t last_granule,
                                     const BytesAt& bytes_at) {
  return granule > 0 ? Search(file_size, granule, bytes_at).find(last_granule) : std::nullopt;
}

std::optional<OggPage> find_last_ogg_page(std::int64_t file_size, const BytesAt& bytes_at) {
  const std::int64_t limit = std::max<std::int64_t>(file_size - static_cast<std::int64_t>(kLongestPage), 0);
  for (std::int64_t end = file_size; end > limit;) {
    const std::int64_t from = std::max<std::int64_t>(end - static_cast<std::int64_t>(kPiece), limit);
    const auto bytes = bytes_at(from, kPiece);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t at = text.substr(0, static_cast<std::size_t>(end - from)).rfind(kCapture);
    if (at == std::string_view::npos) {
      end = from == limit ? limit : from + static_cast<std::int64_t>(kCapture.size()) - 1;
      continue;
    }
    end = from + static_cast<std::int64_t>(at + kCapture.size()) - 1;
    const auto page = read_ogg_page(from + static_cast<std::int64_t>(at), bytes_at);
    if (page && page->end() == file_size) {
      return page;
    }
  }
  return std::nullopt;
}

std::optional<OggPage> find_first_ogg_page(std::int64_t file_size, std::size_t num_headers, const BytesAt& bytes_at,
                                           std::int64_t begin) {
  constexpr int kMostPages = 64;
  std::size_t num_packets = 0;
  auto page = read_ogg_page(begin, bytes_at);
  for (int i = 0; i < kMostPages && page && page->end() < file_size; ++i) {
    num_packets += page->num_ends;
    const auto next = read_ogg_page(page->end(), bytes_at);
    if (!next || next->serial != page->serial || next->number != page->number + 1 || next->end() > file_size) {
      return std::nullopt;
    }
    if (num_packets == num_headers) {
      return next->is_continued ? std::nullopt : next;
    }
    page = next;
  }
  return std::nullopt;
}

namespace {

// The bytes of a page; fewer if they cannot be read.
void read_bytes(const OggPage& page, const BytesAt& bytes_at, std::vector<std::uint8_t>& into) {
  into.clear();
  while (into.size() < page.num_bytes) {
    const auto piece = bytes_at(page.position + static_cast<std::int64_t>(into.size()),
                                std::min(page.num_bytes - into.size(), kPiece));
    if (piece.empty()) {
      return;
    }
    into.insert(into.end(), piece.begin(), piece.end());
  }
}

// Where the next capture pattern begins; the end of the file if there is none.
std::int64_t find_capture(std::int64_t from, std::int64_t file_size, const BytesAt& bytes_at) {
  while (from < file_size) {
    const auto bytes = bytes_at(from, kPiece);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t at = text.find(kCapture);
    if (at != std::string_view::npos) {
      return from + static_cast<std::int64_t>(at);
    }
    if (bytes.size() < kPiece) {
      break;
    }
    from += static_cast<std::int64_t>(kPiece - kCapture.size() + 1);
  }
  return file_size;
}

}  // namespace

OggState check_ogg_pages(std::int64_t first, std::int64_t last, std::int64_t file_size, const BytesAt& bytes_at) {
  std::map<std::uint32_t, std::uint32_t> numbers;  // of the last page of each stream
  std::vector<std::uint8_t> bytes;
  for (std::int64_t at = first; at < file_size && at <= last;) {
    const auto page = read_ogg_page(at, bytes_at);
    if (!page) {
      const std::int64_t capture = find_capture(at, file_size, bytes_at);
      const bool is_header_cut = capture == at && file_size - at < static_cast<std::int64_t>(kLongestHeader);
      return is_header_cut ? OggState::kCutOff : capture < file_size ? OggState::kDamaged : OggState::kWhole;
    }
    if (page->end() > file_size) {
      return find_capture(at + 1, file_size, bytes_at) < file_size ? OggState::kDamaged : OggState::kCutOff;
    }
    read_bytes(*page, bytes_at, bytes);
    const auto before = numbers.find(page->serial);
    const bool follows = page->is_first || before == numbers.end() || page->number == before->second + 1;
    if (!follows || bytes.size() < page->num_bytes || checksum_of(bytes) != page->checksum) {
      return OggState::kDamaged;
    }
    numbers[page->serial] = page->number;
    at = page->end();
  }
  return OggState::kWhole;
}

bool OggPackets::fail() noexcept {
  has_failed_ = true;
  return false;
}

// Reads the bytes of `page_`.
bool OggPackets::read_page() {
  read_bytes(page_, bytes_at_, bytes_);
  return (bytes_.size() == page_.num_bytes && checksum_of(bytes_) == page_.checksum) || fail();
}

// Divides the bytes of `page_` into packets. Of the first page, only what goes on behind it is kept.
bool OggPackets::divide(bool is_first) {
  packets_.clear();
  num_taken_ = 0;
  const std::span<const std::uint8_t> bytes(bytes_);
  const auto lengths = bytes.subspan(kFixedHeader, page_.num_header_bytes - kFixedHeader);
  auto body = bytes.subspan(page_.num_header_bytes);
  bool has_start = !page_.is_continued;  // of the packet that is looked at
  if (has_rest_ != page_.is_continued && !is_first) {
    return fail();
  }
  std::span<const std::uint8_t> before;  // the last packet that ends in the first page
  std::size_t size = 0;
  const auto take = [&] {
    const auto part = body.first(size);
    body = body.subspan(size);
    size = 0;
    return part;
  };
  for (const std::uint8_t length : lengths) {
    size += length;
    if (length == kWhole) {
      continue;
    }
    const auto part = take();
    if (is_first) {
      before = has_start ? part : std::span<const std::uint8_t>{};
    } else {
      OggPacket packet = std::move(rest_);
      if (!has_rest_) {
        packet = {};
        packet.position = page_.position;
      }
      packet.bytes.insert(packet.bytes.end(), part.begin(), part.end());
      packets_.push_back(std::move(packet));
      has_rest_ = false;
      rest_ = {};
    }
    has_start = true;
  }
  if (is_first && (before.empty() || !duration_of_(before))) {
    return fail();
  }
  if (!lengths.empty() && lengths.back() == kWhole) {
    if (!has_start) {
      return fail();  // it began before the first page
    }
    const auto part = take();
    if (!has_rest_) {
      rest_ = {};
      rest_.position = page_.position;
    }
    rest_.bytes.insert(rest_.bytes.end(), part.begin(), part.end());
    has_rest_ = true;
  }
  return true;
}

bool OggPackets::begin() {
  has_begun_ = true;
  return begins_stream_ ? take_page() : read_page() && divide(true);
}

// The packets that end in `page_`, with their times.
bool OggPackets::take_page() {
  if (!read_page() || !divide(false)) {
    return false;
  }
  std::int64_t length = 0;
  for (OggPacket& packet : packets_) {
    const auto duration = duration_of_(packet.bytes);
    if (!duration) {
      return fail();
    }
    const bool is_silent = begins_stream_ && first_is_silent_ && &packet == packets_.data();
    packet.duration = is_silent ? 0 : *duration;
    length += packet.duration;
  }
  if (begins_stream_) {
    if (packets_.empty() || page_.granule < 0 || page_.granule > kMostGranule) {
      return fail();
    }
    // If it is the last one as well, its granule position says where the sound ends (RFC 7845, section 4.4).
    time_ = page_.is_last ? std::max<std::int64_t>(page_.granule - length, 0) : page_.granule - length;
    begins_stream_ = false;
  }
  // Of the last page, the end may be before that of its last packet.
  const std::int64_t end = time_ + length;
  const bool is_right = packets_.empty()  ? page_.granule == kNoGranule
                        : page_.is_last ? page_.granule >= time_ && page_.granule <= end
                                        : page_.granule == end;
  if (!is_right) {
    return fail();
  }
  for (OggPacket& packet : packets_) {
    packet.first = time_;
    time_ += packet.duration;
    if (page_.is_last) {
      packet.num_unwanted = std::clamp<std::int64_t>(time_ - page_.granule, 0, packet.duration);
    }
  }
  return true;
}

std::optional<OggPacket> OggPackets::next() {
  if (has_failed_ || (!has_begun_ && !begin())) {
    return std::nullopt;
  }
  while (num_taken_ == packets_.size()) {
    if (page_.end() == file_size_) {
      return std::nullopt;
    }
    const auto following = read_ogg_page(page_.end(), bytes_at_);
    if (page_.is_last || !following || following->serial != page_.serial || following->number != page_.number + 1 ||
        following->end() > file_size_) {
      fail();
      return std::nullopt;
    }
    page_ = *following;
    if (!take_page()) {
      return std::nullopt;
    }
  }
  return std::move(packets_[num_taken_++]);
}

}  // namespace spdl
