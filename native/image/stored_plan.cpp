#include "image/stored_plan.h"

#include <algorithm>
#include <cmath>

namespace spdl {
namespace {

Direction turned(int source, int begin, int size, int resized, int first, int count, bool is_reversed,
                 bool is_flipped) noexcept {
  Direction direction{source, begin, size, resized, first, count, is_reversed != is_flipped};
  if (is_reversed) {
    direction.begin = source - begin - size;
    direction.first = resized - first - count;
  }
  return direction;
}

// Half of a filter's width, in outputs where it shrinks and in samples where it enlarges; as Pillow has them.
double support_of(Interpolation interpolation) noexcept {
  switch (interpolation) {
    case Interpolation::kNearest:
    case Interpolation::kBox:
      return 0.5;
    case Interpolation::kBilinear:
      return 1;
    case Interpolation::kBicubic:
      return 2;
    case Interpolation::kLanczos:
      return 3;
  }
  return 0;
}

// JPEG has one sample of chroma for up to four pixels in a direction (ITU-T T.81, A.1.1).
constexpr double kCoarsest = 4;

struct Part {
  int begin = 0;
  int size = 0;
};

Part needed(const Direction& direction, double support) noexcept {
  const double scale = static_cast<double>(direction.size) / direction.resized;
  const double margin = support * std::max(scale, kCoarsest) + kCoarsest;
  const double begin = std::floor(direction.first * scale - margin);
  const double end = std::ceil((static_cast<double>(direction.first) + direction.count) * scale + margin);
  const int from = static_cast<int>(std::clamp(begin, 0.0, direction.size - 1.0));
  const int to = static_cast<int>(std::clamp(end, from + 1.0, static_cast<double>(direction.size)));
  return {direction.begin + from, to - from};
}

}  // namespace

StoredPlan stored_plan(const Plan& plan, Orientation orientation) noexcept {
  const auto upright_rows = [&](bool is_reversed) {
    return turned(plan.source_height, plan.crop.top, plan.crop.height, plan.resized_height, plan.window.top,
                  plan.window.height, is_reversed, plan.vertical_flip);
  };
  const auto upright_columns = [&](bool is_reversed) {
    return turned(plan.source_width, plan.crop.left, plan.crop.width, plan.resized_width, plan.window.left,
                  plan.window.width, is_reversed, plan.flip);
  };
  if (swaps_sides(orientation)) {
    return {upright_columns(reverses_rows(orientation)), upright_rows(reverses_columns(orientation)), true};
  }
  return {upright_rows(reverses_rows(orientation)), upright_columns(reverses_columns(orientation)), false};
}

Rect needed_pixels(const StoredPlan& plan, Interpolation interpolation) noexcept {
  const double support = support_of(interpolation);
  const Part rows = needed(plan.rows, support);
  const Part columns = needed(plan.columns, support);
  return {rows.begin, columns.begin, rows.size, columns.size};
}

Axis axis_along(const Direction& direction, int size, double extent, Interpolation interpolation) noexcept {
  const double begin = direction.begin * extent / direction.source;
  const double end = (static_cast<double>(direction.begin) + direction.size) * extent / direction.source;
  Axis axis;
  axis.interpolation = interpolation;
  axis.offset = std::min(static_cast<int>(begin), size - 1);
  axis.size = std::clamp(static_cast<int>(std::ceil(end)), axis.offset + 1, size) - axis.offset;
  axis.begin = begin - axis.offset;
  axis.extent = end - begin;
  axis.resized = direction.resized;
  axis.first = direction.first;
  axis.count = direction.count;
  axis.is_reversed = direction.is_reversed;
  return axis;
}

}  // namespace spdl
