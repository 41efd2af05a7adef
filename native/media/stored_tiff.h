// TIFF whose strips are stored instead of compressed, so that FFmpeg's decoder has nothing left to unpack.
//
// That decoder knows what the samples mean, but takes most of its time for LZW and for zlib: unpack_lzw and libdeflate take less than
// half of it. So what is common is unpacked here, into one strip.

#pragma once

#include <cstddef>
#include <optional>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// A file with the same fields, of those that its first image's pixels depend on, and the same samples, which `into` then has room
// for. So many zeros follow it as `padding` says. Nothing for what is not compressed by LZW or deflate, has other samples than whole
// bytes one pixel after another in strips, is damaged, which the decoder is to judge, or very large.
// `tiff` must not change meanwhile.
std::optional<Bytes> with_stored_strips(Bytes tiff, Buffer& into, std::size_t padding);

}  // namespace spdl
