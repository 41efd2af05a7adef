// Pages of an Ogg file, and the packets in them (RFC 3533).
//
// A page states the end time of the last packet that ends in it (its granule position) and has a number, but does not
// say where other pages are. So the page before a time is found by bisection: a page begins with "OggS", and another
// page of the same stream follows it. If anything does not fit, nothing is found and the caller reads the file in
// another way: damage, missing pages, other streams in between or behind.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "media/block_reader.h"

namespace spdl {

inline constexpr std::int64_t kNoGranule = -1;  // of a page in which no packet ends

struct OggPage {
  std::int64_t position = 0;
  std::size_t num_header_bytes = 0;
  std::size_t num_bytes = 0;  // all of it
  std::size_t num_ends = 0;   // packets that end in it
  std::int64_t granule = kNoGranule;
  std::uint32_t serial = 0;
  std::uint32_t number = 0;
  std::uint32_t checksum = 0;
  bool is_continued = false;  // it begins with the rest of a packet
  bool is_first = false;      // of the stream
  bool is_last = false;       // of the stream

  std::int64_t end() const noexcept { return position + static_cast<std::int64_t>(num_bytes); }
};

// None if no page begins there.
std::optional<OggPage> read_ogg_page(std::int64_t position, const BytesAt& bytes_at);

// The last page of the stream that begins the file whose granule position is at most that. `last_granule`: about that of
// the end of the file. None if it cannot be found, or would be the first page.
std::optional<OggPage> find_ogg_page(std::int64_t file_size, std::int64_t granule, std::int64_t last_granule,
                                     const BytesAt& bytes_at);

// The page after the header pages of the stream that begins at `begin`, which hold `num_headers` packets. None if it does not
// begin with a packet.
std::optional<OggPage> find_first_ogg_page(std::int64_t file_size, std::size_t num_headers, const BytesAt& bytes_at,
                                           std::int64_t begin = 0);

// The last page of the file, which ends with it; none if it does not end with a page.
std::optional<OggPage> find_last_ogg_page(std::int64_t file_size, const BytesAt& bytes_at);

enum class OggState {
  kWhole,    // tags or the like may lie behind the last page
  kCutOff,   // within the last page
  kDamaged,  // by its checksum or number, or something else lies between pages
};

// Reads the pages from the one that begins at `first` up to the one that begins at `last` at most. Less of the file is damage of
// none of them.
OggState check_ogg_pages(std::int64_t first, std::int64_t last, std::int64_t file_size, const BytesAt& bytes_at);

struct OggPacket {
  std::vector<std::uint8_t> bytes;
  std::int64_t position = 0;  // of the page that it begins in
  std::int64_t first = 0;     // granule position at its start
  std::int64_t duration = 0;
  std::int64_t num_unwanted = 0;  // the part at the end of the duration that lies after the end of the stream
};

// Packets of a stream without gaps. One thread per object.
class OggPackets {
 public:
  // The duration of a packet, in granules; none if it has none. Called with the packets in order. The first one may be
  // the packet before the first returned one.
  using DurationOf = std::function<std::optional<std::int64_t>(std::span<const std::uint8_t> packet)>;

  // `page`: the page before the packets, which must have a granule position; or, from the beginning of the stream, the
  // page in which they begin. The other arguments must outlive the object.
  OggPackets(const OggPage& page, bool begins_stream, std::int64_t file_size, const BytesAt& bytes_at,
             const DurationOf& duration_of)
      : page_(page),
        begins_stream_(begins_stream),
        file_size_(file_size),
        bytes_at_(bytes_at),
        duration_of_(duration_of),
        time_(page.granule) {}

  // That nothing is decoded from the first packet of the stream (Vorbis I, section 4.3.8).
  void set_first_is_silent() noexcept { first_is_silent_ = true; }
  // The next packet; none at the end of the file, or if something is not valid.
  std::optional<OggPacket> next();
  // Whether something was not valid. The packets of the pages before it are still right.
  bool has_failed() const noexcept { return has_failed_; }

 private:
  bool begin();
  bool read_page();
  bool take_page();
  bool divide(bool is_first);
  bool fail() noexcept;

  OggPage page_;
  bool begins_stream_;  // its first packets have not been read
  bool first_is_silent_ = false;
  std::int64_t file_size_;
  const BytesAt& bytes_at_;
  const DurationOf& duration_of_;
  std::int64_t time_;
  bool has_begun_ = false;
  bool has_failed_ = false;
  std::vector<std::uint8_t> bytes_;   // of the page
  OggPacket rest_;                    // of a packet that continues in the next page
  bool has_rest_ = false;
  std::vector<OggPacket> packets_;    // of the page
  std::size_t num_taken_ = 0;         // of packets_
};

}  // namespace spdl
