// What the markers of a JPEG say, for callers that use FFmpeg's decoder (libjpeg reads them itself).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "image/bytes.h"

namespace spdl {

// ITU-T T.81, annex B. All is 0 or empty where there is no frame header.
struct JpegFacts {
  std::uint32_t process = 0;  // the last byte of its SOF marker, less 0xc0: 0 to 2 are Huffman-coded with a DCT
  int precision = 0;          // bits of a sample
  int width = 0;
  int height = 0;
  int num_components = 0;
  std::size_t height_at = 0;  // where in the file the height is
  std::array<std::uint8_t, 4> ids{};       // of the components
  std::array<std::uint8_t, 4> sampling{};  // their factors, 0x<horizontal><vertical>
  bool has_jfif = false;
  std::optional<std::uint32_t> adobe_transform;  // of Adobe's APP14
  bool is_of_ffmpeg = false;  // whose colours of 9 bits, if lossless, are of 8 and in a reversible transform
  bool interleaves_samples = false;  // of JPEG-LS, in its first scan
};

// Reads the markers in front of the first scan.
JpegFacts inspect_jpeg(Bytes jpeg) noexcept;

// Whether there is an end marker behind at least one scan. A file that was cut off has none: entropy-coded data cannot look
// like one. Reads all of the data.
bool has_end_marker(Bytes jpeg) noexcept;

// Whether it is JPEG-LS (ITU-T T.87), which has the markers of JPEG and a process of its own.
bool is_jpeg_ls(const JpegFacts& facts) noexcept;
// Whether it is one of the lossless processes, or JPEG-LS.
bool is_lossless(const JpegFacts& facts) noexcept;
// Whether it holds transformed samples of other than 8 bits, which neither libjpeg-turbo (as commonly built) nor FFmpeg
// decodes. FFmpeg returns noise for them without an error.
bool is_deep(const JpegFacts& facts) noexcept;

// Why FFmpeg's decoder interprets its components as other colours than libjpeg, the reference; empty if it does not.
std::string_view misread_because(const JpegFacts& facts) noexcept;

}  // namespace spdl
