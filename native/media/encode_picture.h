// Encodes one picture to the bytes of an image file.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "media/encode_config.h"

namespace spdl {

// Bytes that a picture of that size and format has: planes one after the other, rows without padding.
// Throws Error(kEncode): unknown format.
std::size_t picture_bytes(const VideoEncodeConfig& config);

// `pixels`: a picture of `config`, of `picture_bytes(config)` bytes. `name`: of the file; its extension selects the
// format. A pixel format that the encoder does not take is converted to a supported one that loses neither bits, colours
// nor alpha, and refused if there is none; GIF quantizes colours of 8 bits. JPEG without a bit rate or quality uses the best quality: qscale 2. Throws Error: kMux, kEncode.
std::vector<std::uint8_t> encode_picture(std::span<const std::uint8_t> pixels, VideoEncodeConfig config,
                                         const std::string& name);

}  // namespace spdl
