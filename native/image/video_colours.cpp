#include "image/video_colours.h"

#include <algorithm>

namespace spdl {
namespace {

constexpr int kBits = 14;

struct Coefficients {
  int black, luma, cr_to_r, cb_to_g, cr_to_g, cb_to_b;
};

constexpr int fixed(double number) noexcept {
  return static_cast<int>(number * (1 << kBits) + (number < 0 ? -0.5 : 0.5));
}

// `red` and `blue`: their weights in luma.
constexpr Coefficients coefficients(double red, double blue, bool is_limited) noexcept {
  const double green = 1 - red - blue;
  const double luma = is_limited ? 255.0 / 219 : 1;
  const double chroma = is_limited ? 255.0 / 224 : 1;
  return {is_limited ? 16 : 0,
          fixed(luma),
          fixed(chroma * 2 * (1 - red)),
          fixed(-chroma * 2 * (1 - blue) * blue / green),
          fixed(-chroma * 2 * (1 - red) * red / green),
          fixed(chroma * 2 * (1 - blue))};
}

constexpr Coefficients kFull601 = coefficients(0.299, 0.114, false);
constexpr Coefficients kLimited601 = coefficients(0.299, 0.114, true);
constexpr Coefficients kFull709 = coefficients(0.2126, 0.0722, false);
constexpr Coefficients kLimited709 = coefficients(0.2126, 0.0722, true);

std::uint8_t level(int number) noexcept {
  return static_cast<std::uint8_t>(std::min(std::max(number >> kBits, 0), 255));
}

}  // namespace

void video_to_rgb(YcbcrMatrix matrix, bool is_limited_range, const std::uint8_t* __restrict y,
                  const std::uint8_t* __restrict cb, const std::uint8_t* __restrict cr, std::uint8_t* __restrict r,
                  std::uint8_t* __restrict g, std::uint8_t* __restrict b, int width) noexcept {
  const Coefficients c = matrix == YcbcrMatrix::kBt709 ? (is_limited_range ? kLimited709 : kFull709)
                                                       : (is_limited_range ? kLimited601 : kFull601);
  for (int x = 0; x < width; ++x) {
    const int luma = (y[x] - c.black) * c.luma + (1 << (kBits - 1));
    const int blue = cb[x] - 128;
    const int red = cr[x] - 128;
    r[x] = level(luma + c.cr_to_r * red);
    g[x] = level(luma + c.cb_to_g * blue + c.cr_to_g * red);
    b[x] = level(luma + c.cb_to_b * blue);
  }
}

}  // namespace spdl
