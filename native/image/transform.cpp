#include "image/transform.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/splitmix.h"
#include "image/fit.h"

namespace spdl {
namespace {

// Half of a number of pixels, to the nearest, halves to even: Python's `round(n / 2)`.
constexpr int half(int n) noexcept { return n / 2 + ((n % 2 != 0 && n / 2 % 2 != 0) ? 1 : 0); }

constexpr Rect whole(int height, int width) noexcept { return {0, 0, height, width}; }

// torchvision's RandomResizedCrop: ten tries, then the largest rectangle in the middle whose ratio is allowed.
Rect random_resized_crop(const Transform& transform, int height, int width, SplitMix64& generator) noexcept {
  const double area = static_cast<double>(height) * width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * generator.uniform(transform.scale[0], transform.scale[1]);
    const double ratio = generator.log_uniform(transform.ratio[0], transform.ratio[1]);
    // Compared before they are whole numbers: they may be larger than an int is.
    const double crop_width = std::nearbyint(std::sqrt(wanted * ratio));
    const double crop_height = std::nearbyint(std::sqrt(wanted / ratio));
    if (crop_width >= 1 && crop_width <= width && crop_height >= 1 && crop_height <= height) {
      const int rows = static_cast<int>(crop_height);
      const int columns = static_cast<int>(crop_width);
      const int top = generator.below(height - rows + 1);
      const int left = generator.below(width - columns + 1);
      return {top, left, rows, columns};
    }
  }
  const double ratio = static_cast<double>(width) / height;
  int rows = height;
  int columns = width;
  if (ratio < transform.ratio[0]) {
    rows = std::clamp(static_cast<int>(std::nearbyint(width / transform.ratio[0])), 1, height);
  } else if (ratio > transform.ratio[1]) {
    columns = std::clamp(static_cast<int>(std::nearbyint(height * transform.ratio[1])), 1, width);
  }
  return {(height - rows) / 2, (width - columns) / 2, rows, columns};
}

void check_inside(const Rect& crop, int height, int width) {
  const auto end = [](int begin, int size) { return static_cast<std::int64_t>(begin) + size; };
  if (end(crop.top, crop.height) > height || end(crop.left, crop.width) > width) {
    throw Error(ErrorKind::kDecode, "crop",
                "rows " + std::to_string(crop.top) + " to " + std::to_string(end(crop.top, crop.height)) +
                    " and columns " + std::to_string(crop.left) + " to " + std::to_string(end(crop.left, crop.width)) +
                    " are not all inside the picture, which has " + std::to_string(height) + " rows and " +
                    std::to_string(width) + " columns");
  }
}

// Of a picture that is never made, only cut; more is no photograph.
constexpr std::int64_t kLongestSide = 1 << 30;

// One direction of cutting `wanted` out of `size`: where the window begins, and where it goes on the canvas.
struct Cut {
  int begin = 0;
  int at = 0;
  int count = 0;
};

Cut cut_center(int size, int wanted) noexcept {
  if (size <= wanted) {
    return {0, (wanted - size) / 2, size};
  }
  return {half(size - wanted), 0, wanted};
}

Cut cut_random(int size, int wanted, SplitMix64& generator) noexcept {
  const int begin = generator.below(std::max(size - wanted, 0) + 1);
  return size <= wanted ? cut_center(size, wanted) : Cut{begin, 0, wanted};
}

void cut(const Transform& transform, SplitMix64& generator, Plan& plan) noexcept {
  const bool random = transform.crop == Crop::kRandom;
  const Cut rows = random ? cut_random(plan.resized_height, transform.height, generator)
                          : cut_center(plan.resized_height, transform.height);
  const Cut columns = random ? cut_random(plan.resized_width, transform.width, generator)
                             : cut_center(plan.resized_width, transform.width);
  plan.window = {rows.begin, columns.begin, rows.count, columns.count};
  plan.top = rows.at;
  plan.left = columns.at;
}

void resize(const Transform& transform, Plan& plan) {
  const int height = plan.crop.height;
  const int width = plan.crop.width;
  const bool cuts = transform.crop == Crop::kCenter || transform.crop == Crop::kRandom;
  switch (transform.resize) {
    case Resize::kNone:
      plan.resized_height = cuts ? height : transform.height;
      plan.resized_width = cuts ? width : transform.width;
      break;
    case Resize::kShorterSide: {
      const auto longer = [&](int from, int to) {
        const std::int64_t side = std::int64_t{transform.side} * from / to;
        if (side > kLongestSide) {
          throw Error(ErrorKind::kDecode, "resize",
                      "it has " + std::to_string(width) + "x" + std::to_string(height) + " pixels, so with " +
                          std::to_string(transform.side) + " in the shorter side it would have " + std::to_string(side) +
                          " in the longer");
        }
        return static_cast<int>(side);
      };
      plan.resized_height = height <= width ? transform.side : longer(height, width);
      plan.resized_width = width <= height ? transform.side : longer(width, height);
      break;
    }
    case Resize::kFit: {
      const Placement fit = fit_inside(width, height, transform.width, transform.height);
      plan.resized_height = fit.height;
      plan.resized_width = fit.width;
      plan.top = transform.is_centered ? fit.top : 0;
      plan.left = transform.is_centered ? fit.left : 0;
      break;
    }
  }
}

}  // namespace

Plan plan_for(const Transform& transform, int height, int width, std::uint64_t seed) {
  SplitMix64 generator(seed);
  Plan plan;
  plan.source_height = height;
  plan.source_width = width;
  // Drawn first, so that a crop's tries do not decide about the flips.
  plan.flip = generator.uniform() < transform.flip;
  plan.vertical_flip = generator.uniform() < transform.vertical_flip;
  plan.crop = whole(height, width);
  if (transform.crop == Crop::kGiven) {
    check_inside(transform.given, height, width);
    plan.crop = transform.given;
  } else if (transform.crop == Crop::kRandomResized) {
    plan.crop = random_resized_crop(transform, height, width, generator);
  }
  resize(transform, plan);
  plan.window = whole(plan.resized_height, plan.resized_width);
  if (transform.crop == Crop::kCenter || transform.crop == Crop::kRandom) {
    cut(transform, generator, plan);
  }
  return plan;
}

}  // namespace spdl
