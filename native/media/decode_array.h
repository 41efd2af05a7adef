// From packets straight to one array: what decoding, filtering and copying give one after the other, in one go.
//
// Where the filter only scales and changes the pixel format, pictures are written into the array as they come out of
// the decoder, with no pictures in between: for full-size video those cost as much as the conversion itself.
// Functions; nothing is kept. Two threads may decode different packets at once.

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
