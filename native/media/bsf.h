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

  // The filtered packets, with `flush` including those that the filter held back. The input is not changed; the result
  // has its window and, if the input has a codec, a codec with the parameters that the filter set. Throws
  // Error(kFilter) for packets of another media type, or that the filter refuses.
  Packets filter(const Packets& packets, bool flush);
  // The packets that the filter still holds. The filter can be used again afterwards.
  Packets flush();

 private:
  void drain(Packets& into);

  MediaType type_;
  std::string description_;
  av::BsfPtr context_;
  CodecPtr codec_;  // of the results
  Packets like_;    // the model for results of `flush`: source, window and codec of the last packets; no packets
};

// Filters packets in one call. Throws Error: kNoCodec for packets without one, kFilter.
Packets apply_bsf(const Packets& packets, const std::string& description);

}  // namespace spdl
