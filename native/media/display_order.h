// Finds the display order of pictures that arrive in decoding order, from their headers.
//
// For codecs with pictures of type B and one picture decoded ahead at a time (MPEG-1, -2, -4, VC-1: ISO/IEC 13818-2, 6.1.1.11), by
// that type; for H.264 and HEVC by the picture order count (ITU-T H.264, 8.2.1; H.265, 8.3.1).
//
// Owns a parser of libav. One thread per object.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "av/owners.h"

namespace spdl {

class DisplayOrder {
 public:
  // Whether the codec displays pictures in another order than it decodes them, and this FFmpeg has a parser for it.
  static bool is_known(AVCodecID id) noexcept;

  // Of a codec that is known.
  explicit DisplayOrder(const AVCodecParameters& parameters);

  // Adds the next packet in decoding order, which holds one picture. Packets are numbered from 0.
  void push(const AVPacket& packet);
  // Signals that no more packets follow.
  void finish() noexcept { is_finished_ = true; }
  // Number of the picture that is displayed next; none as long as a later packet may come before it.
  std::optional<std::size_t> pop();

 private:
  struct Place {
    std::int64_t sequence = 0;  // the count starts again with each sequence
    std::int64_t count = 0;
    std::size_t number = 0;
    auto operator<=>(const Place&) const = default;
  };

  Place place_of(const AVPacket& packet, std::size_t number);

  av::CodecContextPtr context_;
  av::ParserPtr parser_;
  bool has_counts_;
  std::set<Place> waiting_;
  std::int64_t sequence_ = 0;
  std::int64_t greatest_ = -1;  // count of the sequence
  std::size_t num_pushed_ = 0;
  bool is_finished_ = false;
};

}  // namespace spdl
