// From packets straight to one array: the same result as decoding, filtering and copying one after the other.
//
// If the filter only scales and changes the pixel format, decoded pictures are written directly into the array, without
// intermediate pictures: for full-size video those cost as much as the conversion itself. Stateless functions. Two
// threads may decode different packets at once.

#pragma once

#include <optional>
#include <string>

#include "base/buffer.h"
#include "media/convert.h"
#include "media/decode.h"
#include "media/packets.h"

namespace spdl {

struct DecodedArray {
  ArrayLayout layout;
  Buffer memory;  // at least as large as the layout says
};

// Throws Error: kDecode, kFilter, kNoCodec, kConvert (no frames, or frames that differ), kUnsupportedFormat.
DecodedArray decode_array(Packets packets, const std::optional<std::string>& filter, const DecodeConfig& config,
                          SoundCut cut);

}  // namespace spdl
