#include "image/fit.h"

#include <doctest/doctest.h>

namespace spdl {

TEST_CASE("a picture keeps its shape inside the canvas, centred") {
  const Placement wide = fit_inside(500, 375, 224, 224);
  CHECK(wide.width == 224);
  CHECK(wide.height == 168);
  CHECK(wide.left == 0);
  CHECK(wide.top == 28);
  const Placement tall = fit_inside(100, 200, 64, 64);
  CHECK(tall.width == 32);
  CHECK(tall.height == 64);
  CHECK(tall.left == 16);
}

TEST_CASE("no side is less than a pixel or leaves the canvas") {
  for (int width = 1; width < 40; ++width) {
    for (int height = 1; height < 40; ++height) {
      for (const int canvas : {1, 7, 33}) {
        const Placement fit = fit_inside(width, height, canvas, 2 * canvas);
        CHECK(fit.width >= 1);
        CHECK(fit.height >= 1);
        CHECK(fit.left >= 0);
        CHECK(fit.top >= 0);
        CHECK(fit.left + fit.width <= canvas);
        CHECK(fit.top + fit.height <= 2 * canvas);
        CHECK((fit.width == canvas || fit.height == 2 * canvas));
      }
    }
  }
}

TEST_CASE("halves are rounded away from zero") {
  CHECK(rescale(3, 1, 2, 10) == 2);
  CHECK(rescale(5, 1, 2, 10) == 3);
  CHECK(rescale(4, 1, 3, 10) == 1);
}

TEST_CASE("a side of extreme pictures is clamped before it is narrowed") {
  CHECK(fit_inside(65500, 1, 100, 33000).width == 100);
  CHECK(fit_inside(1, 65500, 100, 33000).height == 33000);
  CHECK(fit_inside(65500, 1, 100, 33000).height == 1);
}

}  // namespace spdl
