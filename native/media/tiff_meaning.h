// What TIFF's samples mean: the pixel format that holds them, and how their values become its levels.
//
// Plain functions, thread-safe. Only files of media/tiff_*.cpp include this.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"
#include "base/element_type.h"
#include "media/tiff_file.h"
#include "media/tiff_rows.h"

namespace spdl::tiff {

// Why its samples are no levels of gray or colour; empty if they are.
std::string reason_against_levels(TIFF& tiff, const Facts& facts);

// The type of an array that holds the samples as they are, if there is one.
std::optional<ElementType> element_of(const Facts& facts) noexcept;

// AV_PIX_FMT_NONE for subsampling that no format has.
AVPixelFormat format_of_ycbcr(const Facts& facts) noexcept;

// Sets matrix and range of YCbCr. Throws Error(kDecode).
void set_colours(TIFF& tiff, AVFrame& frame);

// For samples that are levels and not YCbCr. CMYK gets a format of four components.
AVPixelFormat format_of_levels(const Facts& facts) noexcept;

// Throws Error(kDecode) for a palette that is not there.
std::vector<TiffComponent> components_of(TIFF& tiff, const Facts& facts, AVPixelFormat format);

}  // namespace spdl::tiff
