// Pictures of WebP, decoded by libwebp: the frame that FFmpeg's decoder gives, sample for sample, in less time.
//
// A build without libwebp, or data that libwebp does not decode, is left to FFmpeg, which also says what is wrong with it.
// Plain functions, thread-safe.

#pragma once

#include <cstdint>
#include <string>

#include "av/owners.h"
#include "image/bytes.h"

namespace spdl {

// Of the library in use; empty if this build has none.
std::string libwebp_version();

// The file that libwebp was loaded from; empty if unknown or if this build has none.
const char* libwebp_path() noexcept;

// Decodes a file with one picture. Its range of colours is left to correct_still. Null for data that FFmpeg must
// decode.
av::FramePtr decode_webp(Bytes webp, std::int64_t max_pixels);

}  // namespace spdl
