// Bit stream filters: packets to packets, without decoding. One thread per object.

#pragma once

#include <string>

#include "av/owners.h"
#include "media/packets.h"

namespace spdl {

class BitStreamFilter {
 public:
  // `description`: a filter, or several with options, as FFmpeg's -bsf takes them. Throws Error(kFilter).
  BitStreamFilter(const Codec& codec, const std::string& description);

  // What comes out for these packets, and with `flush` what the filter still held. The packets are left as they are; the
  // result has their window and, if they have a codec, a codec with what the filter made of its parameters.
  // Throws Error(kFilter) for packets of another kind of media, or that the filter refuses.
  Packets filter(const Packets& packets, bool flush);
  // What the filter still holds; it can be used again after that.
  Packets flush();

 private:
  void drain(Packets& into);

  MediaType type_;
  std::string description_;
  av::BsfPtr context_;
  CodecPtr codec_;  // of what comes out
  Packets like_;    // what `flush` makes results like: source, window, codec of the last packets; no packets
};

// One-off. Throws Error: kNoCodec for packets without one, kFilter.
Packets apply_bsf(const Packets& packets, const std::string& description);

}  // namespace spdl
