// Contexts of libswscale, kept between calls: for a few small pictures, making one takes longer than using it.
//
// A context depends on nothing but what a ScaleCase says, and remembers nothing of a picture once the next one begins.
// Those for which that is not so (error diffusion) or that are large are not kept. Safe to call from any thread; each
// context belongs to who has taken it.

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
  bool is_rgb_refuted = false;   // it gave others: a libswscale that it was not written for
  int num_scaled = 0;            // pictures, by the context
  bool is_sound = true;          // no call has failed

  struct PutAway {
    void operator()(KeptScaler* scaler) const noexcept;
  };
};

using KeptScalerPtr = std::unique_ptr<KeptScaler, KeptScaler::PutAway>;

// One that was kept, or a new one. Null if the bits of libavfilter's `scale` cannot be had from libswscale alone, or
// libswscale refuses.
KeptScalerPtr take_scaler(const ScaleCase& wanted);

}  // namespace spdl
