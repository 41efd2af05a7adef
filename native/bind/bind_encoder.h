// Python's view of encoders.

#pragma once

#include <nanobind/nanobind.h>

#include "bind/gil.h"
#include "bind/handle.h"
#include "media/encoder.h"

namespace spdl::bind {

template <MediaType type>
struct EncoderObject : Handle<Encoder> {
  using Handle::Handle;
  // Destroying an encoder waits for its threads, so it must not hold the GIL, for which they may wait.
  ~EncoderObject() {
    const GilReleased released;
    static_cast<void>(take("the encoder"));
  }
};

using AudioEncoder = EncoderObject<MediaType::kAudio>;
using VideoEncoder = EncoderObject<MediaType::kVideo>;

}  // namespace spdl::bind
