// The three kinds of media. An image is a video of one picture, with a different interface for users.

#pragma once

namespace spdl {

enum class MediaType { kAudio, kVideo, kImage };

constexpr const char* name_of(MediaType type) noexcept {
  switch (type) {
    case MediaType::kAudio:
      return "audio";
    case MediaType::kVideo:
      return "video";
    case MediaType::kImage:
      return "image";
  }
  return "";
}

}  // namespace spdl
