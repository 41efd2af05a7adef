// Decodes the first picture of encoded data of any format.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "av/owners.h"
#include "base/memory_budget.h"
#include "image/batch.h"
#include "image/bytes.h"

namespace spdl {

// A decoded picture, and the lease for its memory and its planes.
struct Still {
  av::FramePtr frame;
  MemoryBudget::Lease lease;
};

// Throws Error(kDecode) for data of a format, as sniff_format names it, that FFmpeg's decoder takes for a picture with
// other colours than are stored, or that ends before its picture does. `tolerates_end`: do not throw for data that ends
// early.
void expect_right_pixels(std::string_view format, Bytes data, bool tolerates_end);

// Decodes `data`. If the format cannot be told from the bytes, the extension of `source` decides, if it is a path.
// The frame's colour range is set if it is known, even where FFmpeg's decoder does not set it. Throws Error: kOpen for
// data that is not a picture, kDecode for damaged data, kImageTooLarge. `keeps_samples`: the frame may be one of stored samples
// (media/stored_samples.h).
Still decode_still(const ImageSource& source, std::span<const std::uint8_t> data, std::int64_t max_pixels,
                   bool keeps_samples = false);

// The first picture of a file that is not read as a whole, such as a movie.
Still decode_still(const std::string& path, std::int64_t max_pixels, bool keeps_samples);

// Whether data of that format, as sniff_format names it, is a picture that is read as a whole.
bool is_still(std::string_view format) noexcept;

}  // namespace spdl
