// Corrects what FFmpeg's decoders of still images leave unset or set wrongly.

#pragma once

#include "av/owners.h"
#include "image/bytes.h"

namespace spdl {

// Completes a frame's colour properties: the range, if the codec has only one; the format of Targa with alpha; undoes
// multiplication by alpha. `data`: the whole file that it was decoded from, if there is one. Does nothing for frames
// that were not decoded by a codec of still images. Throws Error(kDecode).
void correct_still(AVFrame& frame, AVCodecID codec, Bytes data);

// Corrects packets whose meaning FFmpeg does not know: SGI with one dimension.
void correct_packet(AVPacket& packet, AVCodecID codec);

}  // namespace spdl
