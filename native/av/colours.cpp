#include "av/colours.h"

#include <cstring>

namespace spdl::av {
namespace {

template <class Enumeration>
void set(Enumeration& value, int number, int end, Enumeration unspecified) noexcept {
  value = number < 0 || number >= end ? unspecified : static_cast<Enumeration>(number);
}

// The value may be none of its type, and then must not be read as such.
template <class Enumeration>
void forget_unknown(Enumeration& value) noexcept {
  int number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  set_if_known(value, number);
}

}  // namespace

void set_if_known(AVColorRange& value, int number) noexcept {
  set(value, number, AVCOL_RANGE_NB, AVCOL_RANGE_UNSPECIFIED);
}

void set_if_known(AVColorPrimaries& value, int number) noexcept {
  set(value, number, AVCOL_PRI_NB, AVCOL_PRI_UNSPECIFIED);
}

void set_if_known(AVColorTransferCharacteristic& value, int number) noexcept {
  set(value, number, AVCOL_TRC_NB, AVCOL_TRC_UNSPECIFIED);
}

void set_if_known(AVColorSpace& value, int number) noexcept { set(value, number, AVCOL_SPC_NB, AVCOL_SPC_UNSPECIFIED); }

void set_if_known(AVChromaLocation& value, int number) noexcept {
  set(value, number, AVCHROMA_LOC_NB, AVCHROMA_LOC_UNSPECIFIED);
}

void set_if_known(AVPictureType& value, int number) noexcept {
  set(value, number, AV_PICTURE_TYPE_BI + 1, AV_PICTURE_TYPE_NONE);
}

void set_if_known(AVFieldOrder& value, int number) noexcept { set(value, number, AV_FIELD_BT + 1, AV_FIELD_UNKNOWN); }

void forget_unknown_colours(AVCodecParameters& parameters) noexcept {
  forget_unknown(parameters.color_space);
  forget_unknown(parameters.color_range);
  forget_unknown(parameters.color_primaries);
  forget_unknown(parameters.color_trc);
  forget_unknown(parameters.chroma_location);
  forget_unknown(parameters.field_order);
}

void forget_unknown_colours(AVFrame& frame) noexcept {
  forget_unknown(frame.colorspace);
  forget_unknown(frame.color_range);
  forget_unknown(frame.color_primaries);
  forget_unknown(frame.color_trc);
  forget_unknown(frame.chroma_location);
}

}  // namespace spdl::av
