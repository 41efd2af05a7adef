// Rewrites PNG with pixels stored instead of compressed, so that FFmpeg's decoder has nothing to inflate.
//
// That decoder undoes PNG's filters with vector code and knows every kind of pixel, but passes zlib one row at a time.
// libdeflate inflates all rows at once, in less than half of zlib's time; it needs all of the data and the size of the
// result, which are known here.

#pragma once

#include <cstddef>
#include <optional>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// A file with the same chunks, except for the pixels, in `into`. The checksums of the original chunks have been
// checked, and the pixel chunk has no valid checksum: tell the decoder to ignore checksums. `padding` zero bytes follow
// the file. None for damaged files, which are left to the decoder, for very large ones, and in a build without
// libdeflate.
std::optional<Bytes> with_stored_pixels(Bytes png, Buffer& into, std::size_t padding);

// Bytes of all rows with their filters, before compression (PNG, sections 7 to 9); 0 for an invalid header.
std::size_t filtered_bytes(Bytes png) noexcept;

}  // namespace spdl
