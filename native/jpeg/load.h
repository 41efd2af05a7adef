// A batch of JPEG pictures, from files or memory into one array, with an outcome for each.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "image/picture.h"

namespace spdl {

// A path, or encoded data that the caller keeps alive and unchanged in size.
using ImageSource = std::variant<std::string, std::span<const std::uint8_t>>;

struct BatchOptions {
  int width = 0;
  int height = 0;
  PixelFormat format = PixelFormat::kRgb24;
  bool orient = false;

  std::size_t bytes_per_image() const noexcept {
    return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * bytes_per_pixel(format);
  }
};

// Loads each source, fitted and centred, into its slot of `out`, which has room for all of them. The slot of a source
// that fails holds no particular pixels. Returns an outcome for each source: empty if it was loaded.
// Safe to call from several threads at once; each keeps scratch memory of its own.
std::vector<std::optional<Error>> load_jpeg_batch(std::span<const ImageSource> sources, const BatchOptions& options,
                                                  std::uint8_t* out);

// Moves the slots of loaded sources together, in order, and returns how many there are.
std::size_t close_gaps(std::span<const std::optional<Error>> outcomes, std::size_t bytes_per_image, std::uint8_t* out);

}  // namespace spdl
