// The boxes of AVIF and HEIF: the size of the primary picture, and how it is turned (ISO/IEC 14496-12 and 23008-12).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "image/bytes.h"

namespace spdl {

// What is done with a decoded picture to show it.
struct HeifStep {
  enum class Kind : std::uint8_t { kCrop, kTurn, kMirror };

  Kind kind = Kind::kCrop;
  int value = 0;                        // quarter turns against the clock; 1 for mirroring left to right, 0 top to bottom
  std::array<std::uint32_t, 8> crop{};  // numerators and denominators of width, height, and the two offsets of the centre
};

struct HeifFacts {
  bool has_primary = false;  // an item that is the picture to show; files with tracks alone have none
  // Of the primary item.
  std::int64_t width = 0;   // before it is turned; 0 if not stated
  std::int64_t height = 0;
  int quarter_turns = 0;  // against the clock
  // Whether it is mirrored after the turns, left to right or top to bottom.
  std::optional<bool> is_mirrored_sideways;
  // All of it, in its order.
  std::array<HeifStep, 4> steps{};
  std::size_t num_steps = 0;  // more than there is room for: the others are not known
};

struct HeifCrop {
  int left;
  int top;
  int width;
  int height;
};

// The part of a picture of this size that a crop leaves (ISO/IEC 14496-12, 12.1.4); none if it has no whole number of pixels,
// or is not inside.
std::optional<HeifCrop> crop_of(const HeifStep& step, int width, int height) noexcept;

// `data` may end early, or be damaged: what is not found is left at its default. Reads each box once.
HeifFacts inspect_heif(Bytes data) noexcept;

// The orientation that the turns and the mirroring amount to, as EXIF numbers it.
int orientation_of(const HeifFacts& facts) noexcept;

// Makes unknown boxes of all that mirror, so that a decoder leaves it to its caller. `data` is as for inspect_heif.
void hide_mirroring(std::span<std::uint8_t> data) noexcept;

}  // namespace spdl
