// A frame's colour properties, as far as this FFmpeg knows their values.

#pragma once

extern "C" {
#include <libavcodec/codec_par.h>
#include <libavutil/frame.h>
}

namespace spdl::av {

// Damaged or future files contain numbers for matrices, ranges and the like that the enumerations do not have, and
// FFmpeg passes them on. This sets them to "unspecified", as FFmpeg treats them; in C++, even reading them is
// undefined.
void forget_unknown_colours(AVFrame& frame) noexcept;
void forget_unknown_colours(AVCodecParameters& parameters) noexcept;

// The same for one number that becomes such a value.
void set_if_known(AVColorRange& value, int number) noexcept;
void set_if_known(AVColorPrimaries& value, int number) noexcept;
void set_if_known(AVColorTransferCharacteristic& value, int number) noexcept;
void set_if_known(AVColorSpace& value, int number) noexcept;
void set_if_known(AVChromaLocation& value, int number) noexcept;
void set_if_known(AVPictureType& value, int number) noexcept;
void set_if_known(AVFieldOrder& value, int number) noexcept;

}  // namespace spdl::av
