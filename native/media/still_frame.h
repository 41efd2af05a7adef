// Corrects what FFmpeg's decoders of still images leave unset or set wrongly.

#pragma once

#include "av/owners.h"
#include "image/bytes.h"

namespace spdl {

// Completes what a frame says of its colours: a range, where the codec has only one; the format of Targa with alpha;
// colours that are not multiplied by alpha. `data`: what it was decoded from, if that is a whole file. Does nothing to
// what no codec of still images decoded. Throws Error(kDecode).
void correct_still(AVFrame& frame, AVCodecID codec, Bytes data);

}  // namespace spdl
