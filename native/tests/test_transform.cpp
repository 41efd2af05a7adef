#include "image/transform.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace spdl {
namespace {

Transform shorter_side(int side, int size) {
  Transform transform;
  transform.height = size;
  transform.width = size;
  transform.resize = Resize::kShorterSide;
  transform.side = side;
  transform.crop = Crop::kCenter;
  return transform;
}

}  // namespace

TEST_CASE("evaluation resizes the shorter side and crops the centre, as torchvision does") {
  // torchvision.transforms.Resize(256) gives 341x256 here, and CenterCrop(224) begins at round((341 - 224) / 2).
  const Plan plan = plan_for(shorter_side(256, 224), 375, 500, 0);
  CHECK(plan.resized_height == 256);
  CHECK(plan.resized_width == 341);
  CHECK(plan.window == Rect{16, 58, 224, 224});
  CHECK((plan.top == 0 && plan.left == 0));
}

TEST_CASE("a picture smaller than the canvas is centred on it") {
  Transform transform;
  transform.height = 10;
  transform.width = 10;
  transform.crop = Crop::kCenter;
  const Plan plan = plan_for(transform, 4, 6, 0);
  CHECK(plan.window == Rect{0, 0, 4, 6});
  CHECK((plan.top == 3 && plan.left == 2));
}

TEST_CASE("random crops are inside the picture, a function of the seed, and differ") {
  Transform transform;
  transform.height = 8;
  transform.width = 8;
  transform.crop = Crop::kRandomResized;
  int num_different = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = plan_for(transform, 30, 41, seed);
    CHECK((plan.crop.top >= 0 && plan.crop.left >= 0));
    CHECK((plan.crop.bottom() <= 30 && plan.crop.right() <= 41));
    CHECK((plan.crop.height >= 1 && plan.crop.width >= 1));
    CHECK(plan == plan_for(transform, 30, 41, seed));
    num_different += plan.crop != plan_for(transform, 30, 41, seed + 1).crop ? 1 : 0;
  }
  CHECK(num_different > 190);
}

TEST_CASE("a given crop that leaves the picture is refused") {
  Transform transform;
  transform.height = 8;
  transform.width = 8;
  transform.crop = Crop::kGiven;
  transform.given = {0, 30, 8, 8};
  CHECK_NOTHROW(plan_for(transform, 8, 38, 0));
  CHECK_THROWS_AS(plan_for(transform, 8, 37, 0), Error);
}

}  // namespace spdl
