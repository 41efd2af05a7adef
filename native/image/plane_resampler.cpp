#include "image/plane_resampler.h"

#include <algorithm>
#include <cstring>

namespace spdl {
namespace {

// ImagingResampleInner of Pillow 13: where the height shrinks by more than twice as much as the width.
bool pillow_blends_rows_first(const Axis& vertical, const Axis& horizontal) noexcept {
  const int shorter_by = vertical.size - vertical.resized;
  const int narrower_by = horizontal.size - horizontal.resized;
  return shorter_by > 0 && shorter_by > 2 * narrower_by;
}

}  // namespace

const FilterPositions& PlaneResampler::Direction::positions() const noexcept {
  if (fast != nullptr) {
    return *fast;
  }
  return *exact;
}

void PlaneResampler::begin(const Component& component, const Axis& vertical, const Axis& horizontal, bool exact,
                           FilterWeightsCache& cache, const Kernels& kernels, bool is_transposed) {
  kernels_ = &kernels;
  const Span rows = used_samples(vertical);
  const Span columns = used_samples(horizontal);
  source_.stride = component.stride;
  source_.data = component.data + static_cast<std::size_t>(rows.begin - component.held.top) * component.stride +
                 static_cast<std::size_t>(columns.begin - component.held.left);
  num_rows_ = rows.size();
  num_columns_ = columns.size();
  width_ = horizontal.count;
  stride_ = padded(width_);
  const auto weights_of = [&](const Axis& axis) {
    Direction direction;
    if (axis.is_identity()) {
      return direction;
    }
    if (exact) {
      direction.exact = cache.get_exact(axis);
    } else {
      direction.fast = cache.get(axis);
    }
    return direction;
  };
  vertical_ = weights_of(vertical);
  horizontal_ = weights_of(horizontal);
  rows_.reserve(stride_ * kTileRows);
  if (!horizontal_) {
    return;
  }
  blended_.reserve(padded(num_columns_) * kTileRows);
  columns_.reserve(padded(num_columns_ + horizontal_.positions().num_taps) * kTileRows);
  blended_columns_.reserve(stride_ * kTileRows);
  const bool rows_first = is_transposed ? !pillow_blends_rows_first(horizontal, vertical)
                                        : pillow_blends_rows_first(vertical, horizontal);
  if (exact && vertical_ && !rows_first) {
    blend_all_columns();
  }
}

void PlaneResampler::blend_all_columns() {
  // Whole tiles are written.
  std::uint8_t* all = between_.reserve(stride_ * round_up(static_cast<std::size_t>(num_rows_), kTileRows));
  std::uint8_t* out = all;
  for (int top = 0; top < num_rows_; top += kTileRows) {
    blend_columns(whole_tile(top, std::min(kTileRows, num_rows_ - top)), out);
    out += stride_ * kTileRows;
  }
  source_ = {all, stride_};
  num_columns_ = width_;
  horizontal_ = {};
}

void PlaneResampler::make_rows(int top, int num_rows) {
  if (!vertical_ && !horizontal_) {
    tile_ = {source_.row(top), source_.stride};
    return;
  }
  tile_ = {rows_.data(), stride_};
  Rows blended;
  if (vertical_) {
    std::uint8_t* out = horizontal_ ? blended_.data() : rows_.data();
    blended = {out, padded(num_columns_)};
    for (int y = 0; y < num_rows; ++y) {
      blend_row(top + y, out);
      out += blended.stride;
    }
  } else {
    blended = whole_tile(top, num_rows);
  }
  if (horizontal_) {
    blend_columns(blended, rows_.data());
  }
}

void PlaneResampler::blend_row(int index, std::uint8_t* out) {
  const FilterPositions& positions = vertical_.positions();
  const auto num_taps = static_cast<std::size_t>(positions.num_taps);
  const int first = positions.first[static_cast<std::size_t>(index)];
  row_pointers_.resize(num_taps);
  for (int k = 0; k < positions.num_taps; ++k) {
    row_pointers_[static_cast<std::size_t>(k)] = source_.row(std::min(first + k, num_rows_ - 1));
  }
  const std::size_t weights = static_cast<std::size_t>(index) * num_taps;
  if (vertical_.exact != nullptr) {
    kernels_->blend_rows_exact(row_pointers_.data(), vertical_.exact->high.data() + weights,
                               vertical_.exact->low.data() + weights, positions.num_taps, out, num_columns_);
  } else {
    kernels_->blend_rows(row_pointers_.data(), vertical_.fast->weights.data() + weights, positions.num_taps, out,
                         num_columns_);
  }
}

void PlaneResampler::blend_columns(const Rows& from, std::uint8_t* to) {
  const FilterPositions& positions = horizontal_.positions();
  kernels_->rows_to_columns(from.data, from.stride, num_columns_, columns_.data());
  if (horizontal_.exact != nullptr) {
    kernels_->blend_columns_exact(columns_.data(), positions.first.data(), horizontal_.exact->high.data(),
                                  horizontal_.exact->low.data(), positions.num_taps, width_, blended_columns_.data());
  } else {
    kernels_->blend_columns(columns_.data(), positions.first.data(), horizontal_.fast->weights.data(),
                            positions.num_taps, width_, blended_columns_.data());
  }
  kernels_->columns_to_rows(blended_columns_.data(), width_, to, stride_);
}

PlaneResampler::Rows PlaneResampler::whole_tile(int top, int num_rows) {
  if (top + kTileRows <= num_rows_) {
    return {source_.row(top), source_.stride};
  }
  const Rows copy{blended_.data(), padded(num_columns_)};
  for (int y = 0; y < num_rows; ++y) {
    std::memcpy(blended_.data() + static_cast<std::size_t>(y) * copy.stride, source_.row(top + y),
                static_cast<std::size_t>(num_columns_));
  }
  return copy;
}

void PlaneResampler::trim(std::size_t keep_bytes) noexcept {
  for (Buffer* buffer : {&rows_, &blended_, &columns_, &blended_columns_, &between_}) {
    if (buffer->capacity() > keep_bytes) {
      buffer->release();
    }
  }
}

}  // namespace spdl
