// PNG whose pixels are stored instead of compressed, so that FFmpeg's decoder has nothing left to inflate.
//
// That decoder undoes PNG's filters with vector code, knows every kind of pixel, and gives zlib one row at a time. libdeflate takes
// all rows in one go, in less than half of zlib's time, but only if it has all of the data and knows the size of the result, as here.

#pragma once

#include <cstddef>
#include <optional>

#include "base/buffer.h"
#include "image/bytes.h"

namespace spdl {

// A file with the same chunks, but for the pixels, which `into` then has room for. The checksums of its chunks have been checked, and
// that of the pixels' is none: the decoder is not to look at them. So many zeros follow it as `padding` says. Nothing for damaged files, which the decoder is to judge, very
// large ones, and a build without libdeflate.
std::optional<Bytes> with_stored_pixels(Bytes png, Buffer& into, std::size_t padding);

// Bytes of all rows with their filters, before compression (PNG, sections 7 to 9); 0 for a header that no PNG has.
std::size_t filtered_bytes(Bytes png) noexcept;

}  // namespace spdl
