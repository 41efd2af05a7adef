// Recognises pictures of H.264 and HEVC from which decoding is not right at once.
//
// For H.264, containers also mark pictures as key frames where decoding may begin but not all following pictures are
// right at once: those of an open group of pictures, and the start of a gradual refresh (ITU-T H.264, D.2.8). libav's
// decoder outputs the pictures that it has recovered by then, and drops those still waiting for their turn when the
// data ends.

#pragma once

#include "av/owners.h"
#include "image/bytes.h"

namespace spdl {

// What decoding can do with the first slice of a packet: kNone if there is no slice, kEntry for a picture from which on all
// is right (an instantaneous refresh of H.264, an IRAP picture of HEVC), kOther for one that may need earlier pictures.
enum class EntryKind { kNone, kEntry, kOther };

// Of a packet of H.264 or HEVC.
EntryKind entry_kind(const AVPacket& packet, AVCodecID codec, Bytes extradata) noexcept;

// Whether decoding can begin with this key frame and is right from there on. True for all codecs but H.264 and HEVC.
bool is_clean_entry(const AVPacket& key_frame, const AVCodecParameters& parameters) noexcept;

}  // namespace spdl
