// Writes pixels into one slot of a batch, in the channel order, element type and layout of the transform.
//
// One thread per object.

#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "image/kernels.h"
#include "image/transform.h"

namespace spdl {

// Levels of 0 to 255 of each channel, in the order of the transform's colour; readable up to kRowPadding past their
// end.
using ChannelRows = std::array<const std::uint8_t*, 4>;

class SlotWriter {
 public:
  // The slot has room for transform.bytes_per_image(). `line` is scratch memory. All of them must outlive the writer.
  // `plane_stride`: as for Renderer::render.
  SlotWriter(const Transform& transform, const Kernels& kernels, Buffer& line, std::uint8_t* slot,
             std::size_t plane_stride = 0);

  // Writes `count` pixels of row `y` from column `x` on.
  void write(int y, int x, int count, const ChannelRows& rows);

  // Fills the slot outside the rectangle.
  void fill_around(const Rect& rect);

 private:
  // Writes elements from `at` on: levels of one channel, or of all channels interleaved.
  void put(const std::uint8_t* levels, std::size_t count, int channel, std::size_t at);
  // Room for a row of each channel, and for one of packed pixels.
  std::uint8_t* reserve_line();

  static constexpr int kAllInTurn = 4;

  const Transform& transform_;
  const Kernels& kernels_;
  Buffer& line_;
  std::uint8_t* slot_;
  std::size_t plane_;  // elements from one channel to the next, where each has a plane
  // Factors for floating-point elements, for each channel and for all channels interleaved.
  std::array<std::array<float, kPeriod>, 5> factors_;
  std::array<std::array<float, kPeriod>, 5> summands_;
};

}  // namespace spdl
