#include "image/renderer.h"

#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

namespace spdl {
namespace {

constexpr int kSide = 8;

Transform unchanged() {
  Transform transform;
  transform.height = kSide;
  transform.width = kSide;
  transform.color = Color::kGray;
  return transform;
}

Picture gray_picture(const std::vector<std::uint8_t>& samples, int num_rows_held) {
  Picture picture;
  picture.num_components = 1;
  picture.components[0] = {samples.data(), padded(kSide), kSide, kSide, kSide, kSide, {0, 0, num_rows_held, kSide}};
  return picture;
}

}  // namespace

TEST_CASE("what a decoder left out is a bug, and no error of the picture") {
  const Transform transform = unchanged();
  const Plan plan = plan_for(transform, kSide, kSide, 0);
  const std::vector<std::uint8_t> samples(padded(kSide) * kSide, 7);
  std::vector<std::uint8_t> slot(transform.bytes_per_image());
  Renderer renderer;
  renderer.render(gray_picture(samples, kSide), Orientation::kUpright, plan, transform, slot.data());
  CHECK(slot == std::vector<std::uint8_t>(slot.size(), 7));
  CHECK_THROWS_AS(
      renderer.render(gray_picture(samples, kSide - 1), Orientation::kUpright, plan, transform, slot.data()),
      std::logic_error);
}

}  // namespace spdl
