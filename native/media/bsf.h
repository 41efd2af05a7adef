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

  // Consumes the packets; the result carries the same codec (with what the filter made of its parameters) and window.
  Packets filter(Packets packets, bool flush);
  Packets flush();

 private:
  av::BsfPtr context_;
  Packets like_;  // what results are made like: type, source, window, codec; no packets
};

// One-off. Throws Error(kNoCodec) for packets without one.
Packets apply_bsf(Packets packets, const std::string& description);

}  // namespace spdl
