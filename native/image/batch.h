// The sources of a batch of pictures and how to load them; and the interface of the fallback loader, for formats
// without their own loader.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/buffer.h"
#include "base/error.h"
#include "image/transform.h"

namespace spdl {

// The default limit on the pixels of a picture, checked before any memory is allocated for it. It is Pillow's: twice
// its MAX_IMAGE_PIXELS.
inline constexpr std::int64_t kDefaultMaxPixels = 178956970;

// Throws Error(kImageTooLarge).
void require_pixels(std::int64_t width, std::int64_t height, std::int64_t max_pixels);

// How much scratch memory a thread keeps between pictures: enough for 12 megapixels, not for the largest pictures.
inline constexpr std::size_t kKeepBytes = std::size_t{16} << 20;

// A path or URL, or encoded data that the caller keeps alive and unchanged in size.
using ImageSource = std::variant<std::string, std::span<const std::uint8_t>>;

// The size of its encoded data in bytes; 0 if unknown before reading, as for a URL or a pipe.
std::uint64_t encoded_size(const ImageSource& source) noexcept;

// How to load one picture.
struct ImageRequest {
  const Transform& transform;
  std::uint64_t seed = 0;
  const Plan* replay = nullptr;  // used instead of a new plan
  std::int64_t max_pixels = kDefaultMaxPixels;

  // Throws Error(kDecode) if the picture does not have the size of the replayed plan, or if a given crop is not inside
  // the picture.
  Plan plan(int height, int width) const;
};

// Loads pictures with FFmpeg for the extension that is not linked with FFmpeg. The extension that is linked with it
// owns this object, which lives as long as the process. Errors are returned, because exceptions should not cross
// library boundaries. Thread-safe.
class FallbackLoader {
 public:
  // Reads the whole resource at a URL into `into`; `data` becomes a view of it. Also an error if `is_cancelled` returns
  // true.
  virtual std::optional<Error> read(const std::string& url, Buffer& into, std::span<const std::uint8_t>& data,
                                    const std::function<bool()>& is_cancelled) const = 0;

  // Decodes `data`, the contents of `source`, and renders it into `slot`; `plan` becomes the plan that was used.
  virtual std::optional<Error> load(const ImageSource& source, std::span<const std::uint8_t> data,
                                    const ImageRequest& request, std::uint8_t* slot, Plan& plan) const = 0;

 protected:
  ~FallbackLoader() = default;
};

// Name of the Python capsule that holds a `const FallbackLoader*`.
inline constexpr const char* kFallbackLoaderCapsule = "spdl.io.lib.fallback_loader";

}  // namespace spdl
