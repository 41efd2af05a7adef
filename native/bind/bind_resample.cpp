#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "bind/registration.h"
#include "image/filter_weights.h"
#include "image/kernels.h"
#include "image/plane_resampler.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kResampleDoc = R"(Resample one plane.

Args:
    kernels: The instruction set, one of ``instruction_sets()``; all give the same result.
    interpolation: ``"nearest"``, ``"box"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
    exact: Whether to compute the same bytes as Pillow.
    crop: The part of the plane to resample, ``(top, left, height, width)``, or None for all of it.
    window: The part of the result to return, ``(top, left, height, width)``, or None for all of it.
    flip, vertical_flip: Whether to mirror the returned part.

Returns:
    One byte per sample, row by row.)";

constexpr const char* kElementsDoc = R"(Convert levels to array elements: ``level * factor + summand``.

Args:
    levels: The levels of packed pixels; those of channel ``c`` are at ``len(factor) * i + c``.
    kernels: The instruction set, one of ``instruction_sets()``; all give the same result.
    dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
    factor, summand: One number for each channel; 1, 3 or 4 channels.

Returns:
    The elements' bytes in the order of this machine.)";

using Plane = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Levels = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// (top, left, height, width)
using Area = std::array<int, 4>;

const Kernels& kernels_named(const std::string& name) {
  const Kernels* kernels = find_kernels(name);
  if (kernels == nullptr) {
    throw nb::value_error(("this processor has no instruction set '" + name + "'").c_str());
  }
  return *kernels;
}

Interpolation parse_interpolation(const std::string& name) {
  constexpr std::pair<const char*, Interpolation> kNames[] = {{"nearest", Interpolation::kNearest},
                                                              {"box", Interpolation::kBox},
                                                              {"bilinear", Interpolation::kBilinear},
                                                              {"bicubic", Interpolation::kBicubic},
                                                              {"lanczos", Interpolation::kLanczos}};
  for (const auto& [known, interpolation] : kNames) {
    if (name == known) {
      return interpolation;
    }
  }
  throw nb::value_error(
      ("interpolation must be 'nearest', 'box', 'bilinear', 'bicubic' or 'lanczos', got '" + name + "'").c_str());
}

void check_inside(const Area& area, int height, int width, const char* name) {
  const auto [top, left, rows, columns] = area;
  if (top < 0 || left < 0 || rows < 1 || columns < 1 || top > height - rows || left > width - columns) {
    throw nb::value_error((std::string(name) + " must lie inside " + std::to_string(height) + " x " +
                           std::to_string(width) + " and hold a sample")
                              .c_str());
  }
}

// Copies only the samples that `used_samples` returns, so that memory checkers notice more.
Component copy_used(const Plane& plane, const Axis& vertical, const Axis& horizontal, Buffer& memory) {
  const Span rows = used_samples(vertical);
  const Span columns = used_samples(horizontal);
  Component component;
  component.width = static_cast<int>(plane.shape(1));
  component.height = static_cast<int>(plane.shape(0));
  component.extent_x = component.width;
  component.extent_y = component.height;
  component.held = {rows.begin, columns.begin, rows.size(), columns.size()};
  component.stride = static_cast<std::size_t>(columns.size()) + kRowPadding;
  component.data = memory.reserve(component.stride * static_cast<std::size_t>(rows.size()));
  std::memset(memory.data(), 0xa5, memory.capacity());
  for (int y = rows.begin; y < rows.end; ++y) {
    const auto row = static_cast<std::size_t>(y) * plane.shape(1) + static_cast<std::size_t>(columns.begin);
    std::memcpy(memory.data() + static_cast<std::size_t>(y - rows.begin) * component.stride, plane.data() + row,
                static_cast<std::size_t>(columns.size()));
  }
  return component;
}

nb::bytes resample(const Plane& plane, int width, int height, const std::string& kernels_name,
                   const std::string& interpolation_name, bool exact, const std::optional<Area>& crop,
                   const std::optional<Area>& window, bool flip, bool vertical_flip) {
  const Kernels& kernels = kernels_named(kernels_name);
  const Interpolation interpolation = parse_interpolation(interpolation_name);
  if (width < 1 || height < 1 || plane.size() == 0) {
    throw nb::value_error("all sizes must be >= 1");
  }
  const int plane_height = static_cast<int>(plane.shape(0));
  const int plane_width = static_cast<int>(plane.shape(1));
  const Area from = crop.value_or(Area{0, 0, plane_height, plane_width});
  const Area to = window.value_or(Area{0, 0, height, width});
  check_inside(from, plane_height, plane_width, "crop");
  check_inside(to, height, width, "window");
  const Axis vertical{interpolation, from[0], from[2], 0, static_cast<double>(from[2]),
                      height,        to[0],   to[2],   vertical_flip};
  const Axis horizontal{interpolation, from[1], from[3], 0, static_cast<double>(from[3]),
                        width,         to[1],   to[3],   flip};
  Buffer memory;
  const Component component = copy_used(plane, vertical, horizontal, memory);
  std::string out(static_cast<std::size_t>(to[2]) * static_cast<std::size_t>(to[3]), '\0');
  char* at = out.data();
  FilterWeightsCache cache;
  PlaneResampler resampler;
  resampler.begin(component, vertical, horizontal, exact, cache, kernels);
  for (int top = 0; top < vertical.count; top += kTileRows) {
    const int num_rows = std::min(kTileRows, vertical.count - top);
    resampler.make_rows(top, num_rows);
    for (int y = 0; y < num_rows; ++y) {
      std::memcpy(at, resampler.row(y), static_cast<std::size_t>(horizontal.count));
      at += horizontal.count;
    }
  }
  return nb::bytes(out.data(), out.size());
}

template <class Element>
nb::bytes convert(const Levels& levels, const std::array<float, kPeriod>& factors,
                  const std::array<float, kPeriod>& summands,
                  void (*kernel)(const std::uint8_t*, const float*, const float*, std::size_t, Element*)) {
  // Exactly the needed size, so that memory checkers notice more.
  std::vector<Element> out(levels.size());
  kernel(levels.data(), factors.data(), summands.data(), levels.size(), out.data());
  return nb::bytes(out.data(), out.size() * sizeof(Element));
}

nb::bytes to_elements(const Levels& levels, const std::string& kernels_name, const std::string& dtype,
                      const std::vector<float>& factor, const std::vector<float>& summand) {
  const Kernels& kernels = kernels_named(kernels_name);
  if (factor.empty() || factor.size() != summand.size() || kPeriod % factor.size() != 0) {
    throw nb::value_error("factor and summand must have 1, 3 or 4 channels");
  }
  std::array<float, kPeriod> factors;
  std::array<float, kPeriod> summands;
  for (std::size_t i = 0; i < kPeriod; ++i) {
    factors[i] = factor[i % factor.size()];
    summands[i] = summand[i % summand.size()];
  }
  if (dtype == "float32") {
    return convert(levels, factors, summands, kernels.to_float32);
  }
  if (dtype == "float16") {
    return convert(levels, factors, summands, kernels.to_float16);
  }
  if (dtype == "bfloat16") {
    return convert(levels, factors, summands, kernels.to_bfloat16);
  }
  throw nb::value_error(("dtype must be 'float32', 'float16' or 'bfloat16', got '" + dtype + "'").c_str());
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const char* name : {"portable", "neon", "avx2", "avx512"}) {
    if (find_kernels(name) != nullptr) {
      names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace

void register_resample(nb::module_& module) {
  module.def("resample", &resample, "plane"_a, nb::kw_only(), "width"_a, "height"_a, "kernels"_a,
             "interpolation"_a = "bicubic", "exact"_a = false, "crop"_a = nb::none(), "window"_a = nb::none(),
             "flip"_a = false, "vertical_flip"_a = false,
             nb::sig("def resample(plane: numpy.typing.NDArray[numpy.uint8], *, width: int, height: int, kernels: str, "
                     "interpolation: str = 'bicubic', exact: bool = False, "
                     "crop: tuple[int, int, int, int] | None = None, window: tuple[int, int, int, int] | None = None, "
                     "flip: bool = False, vertical_flip: bool = False) -> bytes"),
             kResampleDoc);
  module.def("to_elements", &to_elements, "levels"_a, nb::kw_only(), "kernels"_a, "dtype"_a, "factor"_a, "summand"_a,
             nb::sig("def to_elements(levels: numpy.typing.NDArray[numpy.uint8], *, kernels: str, dtype: str, "
                     "factor: collections.abc.Sequence[float], summand: collections.abc.Sequence[float]) -> bytes"),
             kElementsDoc);
  module.def("instruction_sets", &instruction_sets,
             "Names of the instruction sets with kernels that run here, slowest first.");
}

}  // namespace spdl::bind
