// Pictures of TIFF, decoded by libtiff: strips and tiles, BigTIFF, every compression that libtiff has.
//
// Integers without a sign of up to 16 bits are levels of gray or colour, and become a frame that filters and renderers
// take. Other samples (with a sign, floating point, more bits, or channels that are no colours) become a frame of stored
// samples (stored_samples.h), if the caller can use one. Plain functions, thread-safe.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/bytes.h"
#include "media/still_decoder.h"

namespace spdl {

// Of the library in use; empty if this build has none.
std::string libtiff_version();

// The file that libtiff was loaded from; empty if unknown or if this build has none.
const char* libtiff_path() noexcept;

// Decodes the first picture. None if this build has no libtiff. `keeps_samples`: the caller can use stored samples.
// Throws Error: kDecode for damaged data, for compressions that this libtiff does not have, and for samples that are no
// levels, unless `keeps_samples`; kImageTooLarge. Cancelled.
std::optional<Still> decode_tiff(Bytes tiff, std::int64_t max_pixels, bool keeps_samples);

}  // namespace spdl
