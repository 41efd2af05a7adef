// Rewrites TIFF with strips stored instead of compressed, so that FFmpeg's decoder has nothing to unpack.
//
// That decoder knows what the samples mean, but spends most of its time on LZW and zlib: unpack_lzw and libdeflate take
// less than half of it. So common files are unpacked here, into one strip.

#pragma once

#include <cstddef>
#include <optional>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// A file in `into` with the fields that its first image's pixels depend on, and the same samples. `padding` zero bytes
// follow it. None for files that are not compressed by LZW or deflate, whose samples are not whole bytes stored pixel
// by pixel in strips, that are damaged (left to the decoder), or that are very large. `tiff` must not change during the
// call.
std::optional<Bytes> with_stored_strips(Bytes tiff, Buffer& into, std::size_t padding);

}  // namespace spdl
