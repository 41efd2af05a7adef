// JPEG to planes, by libjpeg-turbo.
//
// A Decoder owns the planes of its last picture and reuses them for the next one: the result of `decode` is valid until
// the next call. One thread per object.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "image/batch.h"
#include "image/kernels.h"
#include "image/picture.h"

namespace spdl {

// A JPEG process that libjpeg-turbo does not decode but FFmpeg may, such as lossless JPEG. Not damage.
class UnsupportedJpeg : public Error {
 public:
  explicit UnsupportedJpeg(std::string reason) : Error(ErrorKind::kDecode, "decode", std::move(reason)) {}
};

struct JpegHeader {
  int width = 0;
  int height = 0;
  int orientation = 1;  // as in EXIF
};

struct JpegSession;

class JpegDecoder {
 public:
  explicit JpegDecoder(const Kernels& kernels = best_kernels());
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept = delete;

  // Reads the header of `data`, which stays the caller's and must live until `decode` returns.
  // Throws UnsupportedJpeg, and Error: kOpen for data that is not JPEG, kDecode for damaged data, kImageTooLarge.
  JpegHeader open(std::span<const std::uint8_t> data, bool want_orientation, std::int64_t max_pixels);

  // Approximate memory for decoding this region of the opened picture: planes, and the coefficients of the whole
  // picture if it has several scans. `shrinking` as for `decode`; 1 for `decode_to_rgb`.
  std::size_t memory_needed(const Rect& region, double shrinking) const noexcept;

  // Decodes the opened picture to planes that hold at least `region`, and no more rows and blocks than that takes.
  // `shrinking` says how many pixels will become one, in the direction with the smaller factor: from 3 on, the inverse
  // transform itself scales, so the planes are smaller than the picture. `luma_only` leaves out the chroma of YCbCr.
  // Data below the region is not read, so damage there goes unnoticed; the same holds above the region if a sequential
  // picture has restart markers. Throws Error(kDecode); warnings of libjpeg that mean damage count.
  Picture decode(const Rect& region, double shrinking, bool luma_only);

  // Decodes the opened picture as libjpeg-turbo does by default: to RGB at full size, with chroma enlarged by the
  // triangle filter; gray and CMYK stay as they are. Decodes the region's rows and at least its columns, bit-identical
  // to those of the whole picture.
  Picture decode_to_rgb(const Rect& region);

  // Decodes the whole picture, row by row, if its components are gray, YCbCr or RGB; gray is written three times. False
  // for CMYK and YCCK.
  bool decode_to_packed_rgb(std::uint8_t* out);

  // Frees planes larger than `keep_bytes`, and the state of the last picture.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  // One row of packed pixels to the planes, `at` bytes from their start.
  void split(const std::uint8_t* packed, std::size_t channels, std::size_t width, std::size_t at) noexcept;

  // Starts at a restart marker at or above row `top`, if the markers down to row `bottom` are right. Returns the number
  // of rows above the part that libjpeg then decodes as the picture: a multiple of a row of units, or 0.
  int jump_to(int top, int bottom);

  const Kernels& kernels_;
  std::span<const std::uint8_t> data_;
  std::size_t height_at_ = 0;
  Buffer header_;
  std::unique_ptr<JpegSession> session_;
  std::array<Buffer, 4> planes_;
  Buffer lines_;
};

// Version of the library in use, as "2.1.5".
const char* libjpeg_turbo_version() noexcept;
// The file that libjpeg-turbo was loaded from; empty if the system cannot tell.
const char* libjpeg_turbo_path() noexcept;

}  // namespace spdl
