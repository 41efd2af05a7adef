#include "image/batch.h"

#include "base/error.h"
#include "base/file.h"

namespace spdl {

void require_pixels(std::int64_t width, std::int64_t height, std::int64_t max_pixels) {
  if (width > 0 && height > 0 && width > max_pixels / height) {
    throw Error(ErrorKind::kImageTooLarge, "decode",
                "it has " + std::to_string(width) + "x" + std::to_string(height) + " pixels, more than the " +
                    std::to_string(max_pixels) + " that max_pixels allows");
  }
}

std::uint64_t encoded_size(const ImageSource& source) noexcept {
  const auto* path = std::get_if<std::string>(&source);
  return path != nullptr ? file_size(*path) : std::get<1>(source).size();
}

Plan ImageRequest::plan(int height, int width) const {
  if (replay == nullptr) {
    return plan_for(transform, height, width, seed);
  }
  if (replay->source_height != height || replay->source_width != width) {
    const auto size = [](int of_height, int of_width) {
      return std::to_string(of_width) + "x" + std::to_string(of_height);
    };
    throw Error(ErrorKind::kDecode, "replay a transform on",
                "it has " + size(width, height) + " pixels, and what is replayed was of a picture of " +
                    size(replay->source_width, replay->source_height));
  }
  return *replay;
}

}  // namespace spdl
