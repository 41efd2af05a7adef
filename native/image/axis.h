// One axis of a resampling: which samples of a component become which outputs, and by which filter.

#pragma once

namespace spdl {

// Pillow's filters, with its supports. All but the nearest are widened when shrinking, for antialiasing.
enum class Interpolation { kNearest, kBox, kBilinear, kBicubic, kLanczos };

// Of a component, the samples [offset, offset + size) may be used; positions below count from `offset`. The part
// [begin, begin + extent) becomes `resized` outputs, of which [first, first + count) are wanted, in reverse if
// `is_reversed`. `begin` and `extent` are fractions where chroma is coarser than the picture.
struct Axis {
  Interpolation interpolation = Interpolation::kBicubic;
  int offset = 0;
  int size = 0;
  double begin = 0;
  double extent = 0;
  int resized = 0;
  int first = 0;
  int count = 0;
  bool is_reversed = false;

  friend bool operator==(const Axis&, const Axis&) = default;

  // Whether the outputs are the samples [offset + first, offset + first + count) themselves.
  constexpr bool is_identity() const noexcept {
    return begin == 0 && extent == resized && size == resized && !is_reversed;
  }
};

}  // namespace spdl
