// Pictures of HEIF with HEVC in them, as telephones write them, decoded by libheif.
//
// The picture is what libheif shows: its tiles put together, cropped, turned and mirrored as the file says, in RGB or
// gray. A build without libheif refuses it. Plain functions, thread-safe.

#pragma once

#include <cstdint>
#include <string>

#include "av/owners.h"
#include "image/bytes.h"

namespace spdl {

// Of the library in use; empty if this build has none.
std::string libheif_version();

// The file that libheif was loaded from; empty if unknown or if this build has none.
const char* libheif_path() noexcept;

// Whether libheif has a decoder for HEVC, which Debian and others package on its own.
bool libheif_reads_hevc() noexcept;

// Decodes the primary picture, which the file has (`HeifFacts::has_primary`). Throws Error: kDecode with the reason,
// kImageTooLarge.
av::FramePtr decode_heif(Bytes heif, std::int64_t max_pixels);

}  // namespace spdl
