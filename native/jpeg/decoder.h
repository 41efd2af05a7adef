// JPEG to planes, by libjpeg-turbo.
//
// A Decoder owns the planes of its last picture and uses them again for the next: what `decode` returns is valid until
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

// A process of JPEG that libjpeg-turbo does not decode and FFmpeg may, such as the lossless one. Not damage.
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
  // Throws UnsupportedJpeg, and Error: kOpen for what is not JPEG, kDecode for what is damaged, kImageTooLarge.
  JpegHeader open(std::span<const std::uint8_t> data, bool want_orientation, std::int64_t max_pixels);

  // How much memory decoding that region of what `open` opened will take, about: planes, and the coefficients of all of
  // it where they come in several scans. `shrinking` as for `decode`; 1 for `decode_to_rgb`.
  std::size_t memory_needed(const Rect& region, double shrinking) const noexcept;

  // Decodes what `open` opened, of which `region` is needed, to planes. They hold at least the region: no more rows and
  // blocks than that takes. `shrinking` says how many pixels, in the direction where they are fewer, will become one:
  // from 3 on the inverse transform itself scales, so the planes are smaller than the picture. `luma_only` leaves the
  // chroma of YCbCr out. What lies below the region is not looked at, so damage there goes unnoticed; nor is what lies
  // above it where a sequential picture has restart markers.
  // Throws Error(kDecode); warnings of libjpeg that mean damage count.
  Picture decode(const Rect& region, double shrinking, bool luma_only);

  // Decodes what `open` opened as libjpeg-turbo's users do: to RGB at full size, its chroma enlarged by the triangle
  // filter; gray and CMYK stay what they are. The region's rows, and at least its columns: to the bit those of the whole.
  Picture decode_to_rgb(const Rect& region);

  // All of it, row by row, if its components are gray, YCbCr or RGB: gray three times. False for inks.
  bool decode_to_packed_rgb(std::uint8_t* out);

  // Frees planes that are larger than that, and the state of the last picture.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  // One row of packed pixels to the planes, `at` bytes from their start.
  void split(const std::uint8_t* packed, std::size_t channels, std::size_t width, std::size_t at) noexcept;

  // Starts at a restart marker at or above row `top`, if the markers down to row `bottom` are as they should be. Returns
  // how many rows are above what libjpeg then takes for the picture: a multiple of a row of units, or 0.
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
