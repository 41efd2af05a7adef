// What a batch of pictures is made from and how; and the general way, for what the short cut of a format does not take.

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

// Pictures with more pixels are refused before anything is allocated for them, unless the caller says otherwise. It is
// what Pillow refuses: twice its MAX_IMAGE_PIXELS.
inline constexpr std::int64_t kDefaultMaxPixels = 178956970;

// Throws Error(kImageTooLarge).
void require_pixels(std::int64_t width, std::int64_t height, std::int64_t max_pixels);

// What a thread keeps from picture to picture: enough for 12 megapixels, not for a picture of the largest size.
inline constexpr std::size_t kKeepBytes = std::size_t{16} << 20;

// A path or URL, or encoded data that the caller keeps alive and unchanged in size.
using ImageSource = std::variant<std::string, std::span<const std::uint8_t>>;

// What is to become of one picture.
struct Order {
  const Transform& transform;
  std::uint64_t seed = 0;
  const Plan* replay = nullptr;  // in place of a plan of its own
  std::int64_t max_pixels = kDefaultMaxPixels;

  // Throws Error(kDecode) if the picture is not of the size that the replayed plan is for, or a given crop leaves it.
  Plan plan(int height, int width) const;
};

// Lent by the extension that is linked with FFmpeg to the one that is not, for as long as the process lives. Failures are
// values, because exceptions of ours are better not thrown from one library into another. Safe from any thread.
class GeneralWay {
 public:
  // Reads all that a URL names into `into`; `data` becomes a view of it. An error, too, if `is_cancelled` says so.
  virtual std::optional<Error> read(const std::string& url, Buffer& into, std::span<const std::uint8_t>& data,
                                    const std::function<bool()>& is_cancelled) const = 0;

  // Decodes `data`, which is what `source` holds, and draws it into `slot`; `plan` becomes what was done.
  virtual std::optional<Error> load(const ImageSource& source, std::span<const std::uint8_t> data, const Order& order,
                                    std::uint8_t* slot, Plan& plan) const = 0;

 protected:
  ~GeneralWay() = default;
};

// Name of the Python capsule that holds a `const GeneralWay*`.
inline constexpr const char* kGeneralWayCapsule = "spdl.io.lib.general_way";

}  // namespace spdl
