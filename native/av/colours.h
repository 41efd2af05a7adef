// What a frame says about its colours, as far as this FFmpeg knows it.

#pragma once

extern "C" {
#include <libavcodec/codec_par.h>
#include <libavutil/frame.h>
}

namespace spdl::av {

// Damaged files, and those of tomorrow, name matrices, ranges and the like by numbers that the enumerations do not have, and
// FFmpeg hands them on. They become "unspecified", which is what FFmpeg takes them for; in C++ they may not even be read.
void forget_unknown_colours(AVFrame& frame) noexcept;
void forget_unknown_colours(AVCodecParameters& parameters) noexcept;

// The same of one number that is to become such a value.
void set_if_known(AVColorRange& value, int number) noexcept;
void set_if_known(AVColorPrimaries& value, int number) noexcept;
void set_if_known(AVColorTransferCharacteristic& value, int number) noexcept;
void set_if_known(AVColorSpace& value, int number) noexcept;
void set_if_known(AVChromaLocation& value, int number) noexcept;
void set_if_known(AVPictureType& value, int number) noexcept;
void set_if_known(AVFieldOrder& value, int number) noexcept;

}  // namespace spdl::av
