// The Python classes of packets, frames and codecs: one for each kind of media, over one native type each. Hold the GIL
// in all of these functions.

#pragma once

#include <nanobind/nanobind.h>

#include "bind/handle.h"
#include "media/frames.h"
#include "media/packets.h"

namespace spdl::bind {

template <MediaType type>
struct PacketsObject : Handle<Packets> {
  using Handle::Handle;
};
template <MediaType type>
struct FramesObject : Handle<Frames> {
  using Handle::Handle;
};
template <MediaType type>
struct CodecObject {
  CodecPtr codec;
};

using AudioPackets = PacketsObject<MediaType::kAudio>;
using VideoPackets = PacketsObject<MediaType::kVideo>;
using ImagePackets = PacketsObject<MediaType::kImage>;
using AudioFrames = FramesObject<MediaType::kAudio>;
using VideoFrames = FramesObject<MediaType::kVideo>;
using ImageFrames = FramesObject<MediaType::kImage>;
using AudioCodec = CodecObject<MediaType::kAudio>;
using VideoCodec = CodecObject<MediaType::kVideo>;
using ImageCodec = CodecObject<MediaType::kImage>;

// A Python object of the class that fits the value's type.
nanobind::object wrap(Packets packets);
nanobind::object wrap(Frames frames);
nanobind::object wrap(CodecPtr codec);  // None for none

// The native object in a Python object of one of the three classes; raises TypeError for any other, with `what` as the
// subject of the message. The reference is valid as long as the Python object lives.
Handle<Packets>& packets_in(nanobind::handle object, const char* what);
Handle<Frames>& frames_in(nanobind::handle object, const char* what);
CodecPtr codec_in(nanobind::handle object, const char* what);

}  // namespace spdl::bind
