// Whether the elements of a Matroska file lie one in the other as they should (RFC 8794, RFC 9559).
//
// Where they do not, libav goes on at the next cluster without an error, so the rest of one is lost (FFmpeg 5.1 to 9.0). This looks
// at the bytes as libav reads them: at the heads of elements, and not into what blocks hold, of which nothing tells.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace spdl {

class MatroskaCheck {
 public:
  // Bytes that were read from that position of the file.
  void see(std::int64_t position, std::span<const std::uint8_t> bytes);

  // Whether an element behind the first position, and up to the last one, is damaged, of those that were seen.
  bool is_damaged(std::int64_t first, std::int64_t last) const noexcept;

 private:
  enum class Kind { kTop, kTracks, kTrack, kCluster, kGroup };
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  struct Master {
    Kind kind = Kind::kTop;
    std::int64_t end = kUnknown;
  };
  struct Element {
    std::uint32_t id = 0;
    std::int64_t begin = 0;  // of what is in it
    std::int64_t end = 0;
    std::uint64_t number = 0;  // of the track of a block, or what is in an element of a track
    bool is_laced = false;     // of a block: whether it holds several frames
  };
  enum class Step { kGoOn, kNeedsMore, kIsLost };

  void start_at(std::int64_t position) noexcept;
  Step next();
  bool read(Element& element, bool& is_valid) const noexcept;
  bool has_place(const Element& element);
  void advance(std::int64_t position) noexcept;

  bool is_matroska_ = true;  // as far as is known
  std::int64_t seen_ = 0;    // where the next byte in sequence is
  std::int64_t next_ = 0;    // where the next element begins
  std::array<std::uint8_t, 24> head_ = {};  // what is known of it
  std::size_t num_held_ = 0;
  bool is_lost_ = false;
  bool is_unsure_ = false;  // whether an element begins there
  std::uint32_t last_bytes_ = 0;  // while it is lost
  std::vector<Master> open_ = {Master{}};
  std::int64_t segment_end_ = kUnknown;
  std::map<std::uint64_t, bool> tracks_;  // whether their blocks may hold several frames
  std::uint64_t track_ = 0;               // whose header is read
  std::set<std::int64_t> damages_;
};

}  // namespace spdl
