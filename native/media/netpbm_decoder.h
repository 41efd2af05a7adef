// Decodes PBM, PGM, PPM, PAM, PFM and PHM: FFmpeg's releases differ in the range and the direction of PFM, and its levels of
// PNM are one off where their largest is not 255.
//
// Levels become gray or RGB, with alpha or without, of 8 bits or, above 255, of 16, scaled so that the largest is white:
// `value * white / most`, to the nearest. Floats and any other number of samples become stored samples
// (media/stored_samples.h). Plain functions, thread-safe.

#pragma once

#include "media/still_decoder.h"

namespace spdl {

// Throws Error: kDecode with the reason, kImageTooLarge.
Still decode_netpbm(Bytes data, std::int64_t max_pixels, bool keeps_samples);

}  // namespace spdl
