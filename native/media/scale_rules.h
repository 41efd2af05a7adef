// Finds what libavfilter's `scale` tells libswscale about colours, which differs between versions of FFmpeg, by scaling
// a small picture with it.
//
// Values, except for the findings, which the process keeps. Safe to call from any thread.

#pragma once

#include <string>

#include "av/owners.h"

namespace spdl {

// Everything besides its content that decides how a picture is scaled.
struct ScaleCase {
  int width = 0, height = 0, format = -1, range = 0, matrix = 0;  // of the picture; as AVFrame has them
  int to_width = 0, to_height = 0;
  AVPixelFormat to_format = AV_PIX_FMT_NONE;
  std::string flags;  // names of libswscale's flags; empty: its default

  bool operator==(const ScaleCase&) const = default;
};

enum class ScaleRules {
  kUnknown,      // none of those below gives the bits that the filter gives
  kOneMatrix,    // up to FFmpeg 6.1: the result has the matrix of the picture
  kTwoMatrices,  // from FFmpeg 7 on: the filters of a graph agree on matrix and range of the result first
};

// How the filter scales pictures of this kind, and what it says of its results.
struct ScaleFacts {
  ScaleRules rules = ScaleRules::kUnknown;
  AVColorRange range = AVCOL_RANGE_UNSPECIFIED;
  AVColorSpace matrix = AVCOL_SPC_UNSPECIFIED;
};

// The first call for a kind of picture (its formats, range, matrix and flags, and whether the size changes) takes a
// millisecond. kUnknown, too, for pictures that the filter refuses.
ScaleFacts find_scale_facts(const ScaleCase& wanted);

// A context for libswscale, and the colour parameters that it was given.
struct ScaleContext {
  av::ScalerPtr context;
  bool is_full_range = false;
  const int* matrix = nullptr;
};

// None if libswscale refuses. Not for kUnknown.
ScaleContext make_scale_context(const ScaleCase& wanted, const ScaleFacts& facts);

}  // namespace spdl
