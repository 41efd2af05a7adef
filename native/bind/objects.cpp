#include "bind/objects.h"

#include <string>
#include <utility>

namespace nb = nanobind;

namespace spdl::bind {
namespace {

template <template <MediaType> class Object, class Value>
nb::object wrap_as(MediaType type, Value value) {
  switch (type) {
    case MediaType::kAudio:
      return nb::cast(new Object<MediaType::kAudio>{std::move(value)}, nb::rv_policy::take_ownership);
    case MediaType::kVideo:
      return nb::cast(new Object<MediaType::kVideo>{std::move(value)}, nb::rv_policy::take_ownership);
    case MediaType::kImage:
      break;
  }
  return nb::cast(new Object<MediaType::kImage>{std::move(value)}, nb::rv_policy::take_ownership);
}

// Null if the object is not of one of the three classes.
template <template <MediaType> class Object, class Base>
Base* find(nb::handle object) {
  if (nb::isinstance<Object<MediaType::kAudio>>(object)) {
    return nb::inst_ptr<Object<MediaType::kAudio>>(object);
  }
  if (nb::isinstance<Object<MediaType::kVideo>>(object)) {
    return nb::inst_ptr<Object<MediaType::kVideo>>(object);
  }
  if (nb::isinstance<Object<MediaType::kImage>>(object)) {
    return nb::inst_ptr<Object<MediaType::kImage>>(object);
  }
  return nullptr;
}

[[noreturn]] void refuse(nb::handle object, const char* what, const char* kinds) {
  const auto name = nb::cast<nb::str>(object.type().attr("__name__"));
  throw nb::type_error((std::string(what) + " must be " + kinds + ", got " + name.c_str()).c_str());
}

}  // namespace

nb::object wrap(Packets packets) {
  const MediaType type = packets.type;
  return wrap_as<PacketsObject>(type, std::move(packets));
}

nb::object wrap(Frames frames) {
  const MediaType type = frames.type;
  return wrap_as<FramesObject>(type, std::move(frames));
}

nb::object wrap(CodecPtr codec) {
  if (!codec) {
    return nb::none();
  }
  const MediaType type = codec->type;
  return wrap_as<CodecObject>(type, std::move(codec));
}

Handle<Packets>& packets_in(nb::handle object, const char* what) {
  auto* found = find<PacketsObject, Handle<Packets>>(object);
  if (found == nullptr) {
    refuse(object, what, "AudioPackets, VideoPackets or ImagePackets");
  }
  return *found;
}

Handle<Frames>& frames_in(nb::handle object, const char* what) {
  auto* found = find<FramesObject, Handle<Frames>>(object);
  if (found == nullptr) {
    refuse(object, what, "AudioFrames, VideoFrames or ImageFrames");
  }
  return *found;
}

CodecPtr codec_in(nb::handle object, const char* what) {
  if (nb::isinstance<AudioCodec>(object)) {
    return nb::inst_ptr<AudioCodec>(object)->codec;
  }
  if (nb::isinstance<VideoCodec>(object)) {
    return nb::inst_ptr<VideoCodec>(object)->codec;
  }
  if (nb::isinstance<ImageCodec>(object)) {
    return nb::inst_ptr<ImageCodec>(object)->codec;
  }
  refuse(object, what, "AudioCodec, VideoCodec or ImageCodec");
}

}  // namespace spdl::bind
