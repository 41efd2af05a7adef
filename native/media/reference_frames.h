// Frames whose planes are in an array with another owner.
//
// The frames share one reference to the memory. It is released after the last of them, and everything that libav made
// from them, is destroyed. It is marked read-only: a writer to the frames gets a copy. Stateless functions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "av/owners.h"
#include "base/element_type.h"
#include "media/frames.h"

namespace spdl {

// An array in C order.
struct ArrayView {
  std::uint8_t* data = nullptr;
  std::span<const std::ptrdiff_t> shape;
  ElementType type;
  std::size_t num_bytes = 0;
};

// The owner of the array, and how to release it, on any thread. Takes over `owner` whether it throws or not.
av::BufferRefPtr make_reference(const ArrayView& array, void (*release)(void* owner, std::uint8_t* data), void* owner);

// Pictures with time stamps `pts`, `pts` + 1, … in units of 1 / frame_rate. Shapes: rgb24 and bgr24 (N, H, W, 3), gray
// and gray16 (N, H, W), yuv444p (N, 3, H, W).
// Throws Error: kUnsupportedFormat, or kConvert where the array does not fit the format.
Frames reference_pictures(const ArrayView& array, const std::string& pix_fmt, AVRational frame_rate, std::int64_t pts,
                          const AVBufferRef& memory);

// Samples that start at `pts` in units of 1 / sample_rate. Shapes: (N, C) for packed formats, (C, N) for planar ones.
// Throws the same.
Frames reference_samples(const ArrayView& array, const std::string& sample_fmt, int sample_rate, std::int64_t pts,
                         const AVBufferRef& memory);

}  // namespace spdl
