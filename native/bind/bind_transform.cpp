#include "bind/bind_transform.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "bind/errors.h"
#include "bind/registration.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kTransformDoc = R"(The native form of ``spdl.io.ImageTransform``, which checks the arguments.

``factor`` and ``summand`` convert levels (0 to 255) to elements, per channel. Immutable.)";

constexpr const char* kPlanDoc = R"(Return the plan for an upright picture of that size.

Returns:
    The height and width of the picture; the crop; its height and width after resizing; the window of that; top and
    left of the window; whether it is flipped horizontally, and vertically. Rectangles are top, left, height, width.

Raises:
    DecodeError: A given crop does not lie inside the picture.)";

template <class Value, std::size_t kCount>
Value parse_word(const std::array<std::pair<std::string_view, Value>, kCount>& words, const std::string& word,
                 const char* what) {
  for (const auto& [name, value] : words) {
    if (name == word) {
      return value;
    }
  }
  throw nb::value_error((std::string(what) + " is not known: '" + word + "'").c_str());
}

constexpr std::array<std::pair<std::string_view, Resize>, 3> kResizes{
    {{"none", Resize::kNone}, {"shorter_side", Resize::kShorterSide}, {"fit", Resize::kFit}}};
constexpr std::array<std::pair<std::string_view, Crop>, 5> kCrops{{{"none", Crop::kNone},
                                                                   {"center", Crop::kCenter},
                                                                   {"random", Crop::kRandom},
                                                                   {"random_resized", Crop::kRandomResized},
                                                                   {"given", Crop::kGiven}}};
constexpr std::array<std::pair<std::string_view, Color>, 5> kColors{{{"rgb", Color::kRgb},
                                                                     {"bgr", Color::kBgr},
                                                                     {"gray", Color::kGray},
                                                                     {"rgba", Color::kRgba},
                                                                     {"ycbcr", Color::kYcbcr}}};
constexpr std::array<std::pair<std::string_view, ElementType>, 4> kElements{
    {{"uint8", kUint8}, {"float16", kFloat16}, {"bfloat16", kBfloat16}, {"float32", kFloat32}}};
constexpr std::array<std::pair<std::string_view, Layout>, 2> kLayouts{
    {{"NHWC", Layout::kNhwc}, {"NCHW", Layout::kNchw}}};

using FourFloats = std::array<float, 4>;
using Numbers = std::tuple<int, int, int, int>;  // of a rectangle

Numbers numbers_of(const Rect& rect) { return {rect.top, rect.left, rect.height, rect.width}; }
Rect rect_of(const Numbers& numbers) { return std::make_from_tuple<Rect>(numbers); }

using PlanFields = std::tuple<int, int, Numbers, std::tuple<int, int>, Numbers, std::tuple<int, int>, bool, bool>;

PlanFields fields_of(const Plan& plan) {
  return {plan.source_height,       plan.source_width,
          numbers_of(plan.crop),    {plan.resized_height, plan.resized_width},
          numbers_of(plan.window),  {plan.top, plan.left},
          plan.flip,                plan.vertical_flip};
}

void make(Transform* at, int height, int width, const std::string& resize, int side, bool is_centered,
          const std::string& crop, std::array<double, 2> scale, std::array<double, 2> ratio, const Numbers& given,
          double flip, double vertical_flip, const std::string& interpolation, const std::string& color,
          const std::string& dtype, const std::string& layout, FourFloats factor, FourFloats summand,
          std::array<std::uint8_t, 4> fill, bool orient, bool exact) {
  if (height < 1 || width < 1) {
    throw nb::value_error("height and width must be >= 1");
  }
  Transform transform;
  transform.height = height;
  transform.width = width;
  transform.resize = parse_word(kResizes, resize, "resize");
  transform.side = side;
  transform.is_centered = is_centered;
  transform.crop = parse_word(kCrops, crop, "crop");
  transform.scale = scale;
  transform.ratio = ratio;
  transform.given = rect_of(given);
  transform.flip = flip;
  transform.vertical_flip = vertical_flip;
  transform.interpolation = parse_interpolation(interpolation);
  transform.color = parse_word(kColors, color, "color");
  transform.element = parse_word(kElements, dtype, "dtype");
  transform.layout = parse_word(kLayouts, layout, "layout");
  transform.factor = factor;
  transform.summand = summand;
  transform.fill = fill;
  transform.orient = orient;
  transform.exact = exact;
  new (at) Transform(transform);
}

PlanFields plan(const Transform& transform, int height, int width, std::uint64_t seed) {
  if (height < 1 || width < 1) {
    throw nb::value_error("height and width must be >= 1");
  }
  return fields_of(plan_for(transform, height, width, seed));
}

std::tuple<int, int, int> shape_of(const Transform& transform) {
  const int channels = num_channels(transform.color);
  if (transform.layout == Layout::kNchw) {
    return {channels, transform.height, transform.width};
  }
  return {transform.height, transform.width, channels};
}

bool is_inside(const Rect& rect, int height, int width) {
  return rect.top >= 0 && rect.left >= 0 && rect.height >= 1 && rect.width >= 1 && rect.height <= height - rect.top &&
         rect.width <= width - rect.left;
}

}  // namespace

Interpolation parse_interpolation(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, Interpolation>, 5> kNames{
      {{"nearest", Interpolation::kNearest},
       {"box", Interpolation::kBox},
       {"bilinear", Interpolation::kBilinear},
       {"bicubic", Interpolation::kBicubic},
       {"lanczos", Interpolation::kLanczos}}};
  return parse_word(kNames, name, "interpolation");
}

Plan parse_plan(nb::handle tuple, const Transform& transform) {
  const auto [source_height, source_width, crop, resized, window, offset, flip, vertical_flip] =
      nb::cast<PlanFields>(tuple);
  Plan plan;
  plan.source_height = source_height;
  plan.source_width = source_width;
  plan.crop = rect_of(crop);
  std::tie(plan.resized_height, plan.resized_width) = resized;
  plan.window = rect_of(window);
  std::tie(plan.top, plan.left) = offset;
  plan.flip = flip;
  plan.vertical_flip = vertical_flip;
  if (!is_inside(plan.crop, source_height, source_width) ||
      !is_inside(plan.window, plan.resized_height, plan.resized_width) ||
      !is_inside({plan.top, plan.left, plan.window.height, plan.window.width}, transform.height, transform.width)) {
    throw nb::value_error("a plan to replay has a rectangle that lies outside of the picture or of the canvas");
  }
  return plan;
}

void register_transform(nb::module_& module) {
  nb::class_<Transform>(module, "Transform", kTransformDoc)
      .def("__init__", &make, nb::kw_only(), "height"_a, "width"_a, "resize"_a, "side"_a, "is_centered"_a, "crop"_a,
           "scale"_a, "ratio"_a, "given"_a, "flip"_a, "vertical_flip"_a, "interpolation"_a, "color"_a, "dtype"_a,
           "layout"_a, "factor"_a, "summand"_a, "fill"_a, "orient"_a, "exact"_a,
           nb::sig("def __init__(self, *, height: int, width: int, resize: str, side: int, is_centered: bool, crop: str, "
                   "scale: tuple[float, float], ratio: tuple[float, float], given: tuple[int, int, int, int], "
                   "flip: float, vertical_flip: float, interpolation: str, color: str, dtype: str, layout: str, "
                   "factor: tuple[float, float, float, float], summand: tuple[float, float, float, float], "
                   "fill: tuple[int, int, int, int], orient: bool, exact: bool) -> None"))
      .def("plan", &plan, "height"_a, "width"_a, "seed"_a, kPlanDoc)
      .def_prop_ro("shape", &shape_of, "Of one image.")
      .def_prop_ro("dtype", [](const Transform& transform) { return name_of(transform.element); },
                   "Name of the elements' type.");
}

}  // namespace spdl::bind
