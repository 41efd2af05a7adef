// Serializes frames for another process, and back. Planes are not copied: they are sent from their own memory.
//
// The in-band bytes, little endian:
//
//   8 bytes   "SPDLFRM", and the version of what follows: 1
//   u64       size of the description
//   u64       FNV-1a hash of the description
//   …         the description: all but the planes; for each plane, its buffer and its offset there
//   …         from the next multiple of 64 bytes on: buffer 0, with planes that are too small for one of their own
//
// Each out-of-band buffer is a range of memory with planes, sent once for all frames that share it, with the bytes that libav may
// read beyond the planes' ends. Both sides have the same FFmpeg, so libav's numbers are used as they are.

#pragma once

#include <span>

#include "media/frames.h"
#include "media/shared_bytes.h"

namespace spdl {

// Does not change the frames. Throws Error(kUnsupportedFormat) for frames in memory of a GPU.
Serialized serialize(const Frames& frames);

// Frames that refer to the given bytes and keep them; read-only, so that a writer gets a copy. Bytes are copied if they are less
// aligned than those that were sent, or if there may be no memory behind them for libav to read.
// Throws Error(kMedia) if they do not belong together.
Frames deserialize_frames(const SharedBytes& in_band, std::span<const SharedBytes> out_of_band);

}  // namespace spdl
