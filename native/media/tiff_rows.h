// Rows of TIFF's samples, as libtiff unpacks them, put into the planes of a frame.
//
// Plain functions and an object for one frame. One thread per object; the frame must outlive it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "av/owners.h"

namespace spdl {

// How samples lie in a file.
struct TiffSamples {
  unsigned bits = 8;
  unsigned per_pixel = 1;
  bool is_planar = false;  // a plane for each sample
};

// Where a component of the frame's format comes from.
struct TiffComponent {
  unsigned sample = 0;
  // The level for each value of the sample; empty: the value is the level.
  std::vector<std::uint16_t> levels;
};

class TiffRows {
 public:
  // `components`: one for each of the frame's format, in FFmpeg's order of components. Samples have up to 16 bits.
  TiffRows(AVFrame& frame, const TiffSamples& samples, std::vector<TiffComponent> components);

  // A row of `width` pixels, or of one sample of each if samples lie in planes of their own, from column `x` on.
  void put(unsigned plane, int x, int y, int width, const std::uint8_t* row);

 private:
  void put_component(std::size_t index, int x, int y, int width, const std::uint16_t* values, std::size_t step);

  AVFrame& frame_;
  TiffSamples samples_;
  std::vector<TiffComponent> components_;
  std::vector<std::uint16_t> line_;
  std::size_t copied_bytes_ = 0;  // for each pixel, where rows are copied as they are; else 0
};

// One plane of luma and two of chroma from blocks of `across` times `down` samples of luma and one of each chroma (TIFF
// 6.0, section 21). `blocks`: those of a strip or tile of `width` columns, for the rows from `top` and the columns from
// `left` on, as far as they lie in the frame. Both are multiples of the size of a block.
void put_blocks(AVFrame& frame, int left, int top, int width, int rows, int across, int down, const std::uint8_t* blocks);

// Bytes of such a strip or tile.
std::size_t block_bytes(int width, int rows, int across, int down) noexcept;

// A picture in RGB of one whose components are C, M, Y and K: RGBA becomes RGB24, RGBA64 RGB48.
av::FramePtr without_inks(const AVFrame& inks);

}  // namespace spdl
