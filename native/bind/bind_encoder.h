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
  // The end of an encoder waits for its threads, and they must not have to wait for the GIL.
  ~EncoderObject() {
    const GilReleased released;
    static_cast<void>(take("the encoder"));
  }
};

using AudioEncoder = EncoderObject<MediaType::kAudio>;
using VideoEncoder = EncoderObject<MediaType::kVideo>;

}  // namespace spdl::bind
