// Plans in the directions of the stored picture, against turning the picture first.

#include "image/orientation.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "image/stored_plan.h"

namespace spdl {
namespace {

struct Position {
  int row = 0;
  int column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

constexpr int kHeight = 5;  // of the stored picture
constexpr int kWidth = 7;

// Where the upright picture's pixel is stored: EXIF 2.32 (CIPA DC-008), tag 274, read as a person would.
Position stored_at(int orientation, int row, int column) {
  const int last_row = kHeight - 1;
  const int last_column = kWidth - 1;
  switch (orientation) {
    case 2:
      return {row, last_column - column};
    case 3:
      return {last_row - row, last_column - column};
    case 4:
      return {last_row - row, column};
    case 5:
      return {column, row};
    case 6:
      return {last_row - column, row};
    case 7:
      return {last_row - column, last_column - row};
    case 8:
      return {column, last_column - row};
    default:
      return {row, column};
  }
}

// The stored samples of the wanted outputs, where nothing is resized.
std::vector<int> samples_of(const Direction& direction) {
  std::vector<int> samples;
  for (int i = 0; i < direction.count; ++i) {
    const int output = direction.is_reversed ? direction.count - 1 - i : i;
    samples.push_back(direction.begin + direction.first + output);
  }
  return samples;
}

Plan cropped(int height, int width) {
  Plan plan;
  plan.source_height = height;
  plan.source_width = width;
  plan.crop = {1, 0, height - 1, width - 1};
  plan.resized_height = plan.crop.height;
  plan.resized_width = plan.crop.width;
  plan.window = {1, 1, plan.crop.height - 2, plan.crop.width - 1};
  return plan;
}

}  // namespace

TEST_CASE("a stored plan takes the pixels that turning the picture first would take") {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const bool swaps = swaps_sides(static_cast<Orientation>(orientation));
    for (const bool flip : {false, true}) {
      for (const bool vertical : {false, true}) {
        CAPTURE(orientation);
        CAPTURE(flip);
        CAPTURE(vertical);
        Plan plan = swaps ? cropped(kWidth, kHeight) : cropped(kHeight, kWidth);
        plan.flip = flip;
        plan.vertical_flip = vertical;
        const StoredPlan stored = stored_plan(plan, static_cast<Orientation>(orientation));
        CHECK(stored.is_transposed == swaps);
        const std::vector<int> rows = samples_of(stored.rows);
        const std::vector<int> columns = samples_of(stored.columns);
        for (int y = 0; y < plan.window.height; ++y) {
          for (int x = 0; x < plan.window.width; ++x) {
            const int shown_y = vertical ? plan.window.height - 1 - y : y;
            const int shown_x = flip ? plan.window.width - 1 - x : x;
            const Position wanted = stored_at(orientation, plan.crop.top + plan.window.top + shown_y,
                                              plan.crop.left + plan.window.left + shown_x);
            const auto row = static_cast<std::size_t>(swaps ? x : y);
            const auto column = static_cast<std::size_t>(swaps ? y : x);
            CHECK(Position{rows[row], columns[column]} == wanted);
          }
        }
      }
    }
  }
}

TEST_CASE("needed pixels lie inside the crop and cover the window") {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Plan plan = swaps_sides(static_cast<Orientation>(orientation)) ? cropped(kWidth, kHeight) : cropped(kHeight, kWidth);
    const StoredPlan stored = stored_plan(plan, static_cast<Orientation>(orientation));
    const Rect needed = needed_pixels(stored, Interpolation::kBilinear);
    CHECK(needed.top >= stored.rows.begin);
    CHECK(needed.bottom() <= stored.rows.begin + stored.rows.size);
    CHECK(needed.left >= stored.columns.begin);
    CHECK(needed.right() <= stored.columns.begin + stored.columns.size);
    for (const int row : samples_of(stored.rows)) {
      CHECK((needed.top <= row && row < needed.bottom()));
    }
  }
}

}  // namespace spdl
