// Python's view of encoders.

#pragma once

#include <nanobind/nanobind.h>

#include "bind/handle.h"
#include "media/encoder.h"

namespace spdl::bind {

template <MediaType type>
struct EncoderObject : Handle<Encoder> {
  using Handle::Handle;
};

using AudioEncoder = EncoderObject<MediaType::kAudio>;
using VideoEncoder = EncoderObject<MediaType::kVideo>;

void register_encoder(nanobind::module_& module);

}  // namespace spdl::bind
