// Encodes gray pictures as JPEG of one component, which FFmpeg's encoder does not. Plain functions, thread-safe.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/bytes.h"

namespace spdl {

// `pixels`: rows without padding. `qscale`: as of FFmpeg's encoder, whose table of quantization is used, from 2 to 31; others count as
// the nearest of them. Throws Error(kEncode), about the file `name`.
std::vector<std::uint8_t> encode_gray_jpeg(Bytes pixels, int width, int height, int qscale, const std::string& name);

}  // namespace spdl
