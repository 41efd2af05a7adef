// Frames in parts, for another process, which puts them together again: their planes stay where they lie.
//
// The joined part, little endian:
//
//   8 bytes   "SPDLFRM", and the version of what follows: 1
//   u64       size of the description
//   u64       FNV-1a hash of the description
//   …         the description: all but the planes; for each plane, where in which part it is
//   …         from the next multiple of 64 bytes on: planes that are not worth a part of their own
//
// Each other part is a stretch of memory in which frames have planes, once for all that share it, with what libav may
// read beyond their ends. Both sides have the same FFmpeg: its numbers are used as they are.

#pragma once

#include <span>

#include "media/frames.h"
#include "media/part.h"

namespace spdl {

// The frames stay what they are. Throws Error(kUnsupportedFormat) for those in memory of a GPU.
Parts take_apart(const Frames& frames);

// Frames whose planes are where they are in the parts, which they keep; they are read-only, so that a writer
// gets a copy. A part whose address is less aligned than that of what was sent, or behind which there may be no memory
// to read beyond its end, is copied.
// Throws Error(kMedia) for parts that do not belong together.
Frames put_together(const Part& joined, std::span<const Part> beside);

}  // namespace spdl
