// Contexts of libswscale, kept between calls: for a few small pictures, making one takes longer than using it.
//
// A context depends only on its ScaleCase, and keeps no state from one picture to the next. Contexts for which that is
// not true (error diffusion), and large ones, are not kept. Safe to call from any thread; a taken context belongs to
// the caller.

#pragma once

#include <memory>
#include <optional>

#include "media/rgb_scaler.h"
#include "media/scale_rules.h"

namespace spdl {

struct KeptScaler {
  ScaleCase wanted;
  ScaleFacts facts;
  ScaleContext made;
  std::optional<RgbScaler> rgb;  // gave the same bits as the context
  bool is_rgb_refuted = false;   // it gave different bits: a libswscale that it was not written for
  int num_scaled = 0;            // pictures, by the context
  bool is_sound = true;          // no call has failed

  struct PutAway {
    void operator()(KeptScaler* scaler) const noexcept;
  };
};

using KeptScalerPtr = std::unique_ptr<KeptScaler, KeptScaler::PutAway>;

// A kept context or a new one. Null if libswscale alone cannot give the same bits as libavfilter's `scale`, or if
// libswscale refuses.
KeptScalerPtr take_scaler(const ScaleCase& wanted);

}  // namespace spdl
