// Resamples one component of a picture, a tile of kTileRows output rows at a time.
//
// There are two modes. The fast mode blends rows, then columns, with 14-bit weights. The exact mode gives the same bits
// as Pillow (src/libImaging/Resample.c), with 22-bit weights: columns, rounded to 8 bits, then rows; or in the other
// order where Pillow 13 does so (earlier versions never do). A PlaneResampler reuses its memory for the next component.
// One thread per object.

#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "image/axis.h"
#include "image/filter_weights.h"
#include "image/kernels.h"
#include "image/picture.h"

namespace spdl {

class PlaneResampler {
 public:
  // Sets what to resample. The caller owns the component's samples, which must live until the last `make_rows`. Every
  // sample that the axes can use must be in memory: [axis.offset, axis.offset + axis.size), or, for a window of the
  // outputs, at least those that `used_samples` returns. No other row is read, and no row further than kRowPadding past
  // the last of these samples. The weights stay in `cache`. Before the last `make_rows` it may be asked for at most
  // FilterWeightsCache::kSize - 1 more tables of the same kind. `is_transposed` tells the exact mode that these rows
  // are columns of the picture that Pillow would make.
  void begin(const Component& component, const Axis& vertical, const Axis& horizontal, bool exact,
             FilterWeightsCache& cache, const Kernels& kernels, bool is_transposed = false);

  // Makes output rows [top, top + num_rows) of those that are wanted; num_rows is at most kTileRows.
  void make_rows(int top, int num_rows);

  // Row `index` of the tile: horizontal.count samples, readable up to kRowPadding further.
  const std::uint8_t* row(int index) const noexcept { return tile_.row(index); }

  // Frees scratch memory larger than `keep_bytes`.
  void trim(std::size_t keep_bytes) noexcept;

 private:
  struct Rows {
    const std::uint8_t* data = nullptr;
    std::size_t stride = 0;

    const std::uint8_t* row(int index) const noexcept { return data + static_cast<std::size_t>(index) * stride; }
  };

  // The weights of one direction, for one of the two modes; none if the samples stay as they are.
  struct Direction {
    const FilterWeights* fast = nullptr;
    const ExactFilterWeights* exact = nullptr;

    explicit operator bool() const noexcept { return fast != nullptr || exact != nullptr; }
    const FilterPositions& positions() const noexcept;
  };

  void blend_row(int index, std::uint8_t* out);
  // Blends the columns of kTileRows readable rows into as many.
  void blend_columns(const Rows& from, std::uint8_t* to);
  void blend_all_columns();
  // kTileRows readable rows that begin with rows [top, top + num_rows) of `source_`: these themselves if there are as
  // many, else a copy.
  Rows whole_tile(int top, int num_rows);

  const Kernels* kernels_ = nullptr;
  // The samples that are used, which is where `first` of the weights counts from.
  Rows source_;
  int num_rows_ = 0;
  int num_columns_ = 0;
  int width_ = 0;
  std::size_t stride_ = 0;  // of rows of `width_`
  Direction vertical_;
  Direction horizontal_;
  Rows tile_;

  std::vector<const std::uint8_t*> row_pointers_;
  Buffer rows_;
  Buffer blended_;
  Buffer columns_;
  Buffer blended_columns_;
  Buffer between_;
};

}  // namespace spdl
