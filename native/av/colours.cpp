#include "av/colours.h"

#include <cstring>

namespace spdl::av {
namespace {

template <class Enumeration>
void forget_unknown(Enumeration& value, Enumeration end, Enumeration unspecified) noexcept {
  int number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  if (number < 0 || number >= static_cast<int>(end)) {
    value = unspecified;
  }
}

}  // namespace

void forget_unknown_colours(AVFrame& frame) noexcept {
  forget_unknown(frame.colorspace, AVCOL_SPC_NB, AVCOL_SPC_UNSPECIFIED);
  forget_unknown(frame.color_range, AVCOL_RANGE_NB, AVCOL_RANGE_UNSPECIFIED);
}

}  // namespace spdl::av
